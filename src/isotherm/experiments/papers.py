"""The papers that several studies are about; each study says what is different in it, and adds its tables."""

from isotherm.experiments.study import Paper

CHEN_LI = Paper("Chen & Li 2021, Intriguing Properties of Contrastive Losses", "https://arxiv.org/abs/2011.02803")
DYSTRESS = Paper(
    "Manna et al. 2024, Dynamically Scaled Temperature in Self-Supervised Contrastive Learning (DySTreSS)",
    "https://arxiv.org/abs/2308.01140",
)
WANG_LIU = Paper("Wang & Liu 2021, Understanding the Behaviour of Contrastive Loss", "https://arxiv.org/abs/2012.09740")
