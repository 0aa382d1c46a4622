"""The papers that several studies are about; each study says what is different in it, and adds its tables."""

from pathlib import Path

from isotherm.experiments.study import Paper

PUBLISHED = Path(__file__).parents[1] / "studies" / "published"
"""The papers' tables, a folder for each paper."""

CACR = Paper(
    "Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning (CACR)",
    "https://arxiv.org/abs/2105.03746",
)
CHEN_LI = Paper("Chen & Li 2021, Intriguing Properties of Contrastive Losses", "https://arxiv.org/abs/2011.02803")
DYSTRESS = Paper(
    "Manna et al. 2024, Dynamically Scaled Temperature in Self-Supervised Contrastive Learning (DySTreSS)",
    "https://arxiv.org/abs/2308.01140",
)
WANG_LIU = Paper("Wang & Liu 2021, Understanding the Behaviour of Contrastive Loss", "https://arxiv.org/abs/2012.09740")


def published(table: str) -> Path:
    """The file of a table by its paper's folder and its own name: ``published("wang-liu/table-1")``."""
    return PUBLISHED / f"{table}.csv"
