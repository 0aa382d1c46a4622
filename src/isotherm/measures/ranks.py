"""The measures by which people choose among runs without labels: ranks and decays of spectra (RankMe: `features`)."""

from __future__ import annotations

from typing import Any

from isotherm.measures import geometry
from isotherm.measures.measure import as_measure

GROUP = "ranks"


@as_measure("LiDAR", (GROUP,), needs=("embeddings", "views"), better="higher")
def lidar(subject: Any) -> Any:
    """How many directions tell items apart and not the views of one: e to the entropy of a discriminant analysis
    whose classes are the items (Thilak et al. 2023).
    """
    return geometry.lidar(*subject.views) if len(subject.views[0]) > 1 else None


@as_measure("α-ReQ", (GROUP,), needs=("features",))
def alpha_req(subject: Any) -> Any:
    """How fast the variance of the encoder's features falls along their principal directions, the exponent of a power
    law; near 1 is healthy (Agrawal et al. 2022).
    """
    if not subject.backbone.healthy:
        return None
    try:
        return geometry.alpha_req(subject.backbone.embeddings)
    except ValueError:  # it has too few directions for a power law
        return None
