"""The measures of the encoder's features: the geometry that `embedding` measures behind the head, taken before it.

The authors of DySTreSS measure there (Table 13), those of other papers on embeddings; a study may name both groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isotherm.measures import embedding, geometry
from isotherm.measures.measure import Measure, as_measure

GROUP = "feature geometry"


def of_features(measure: Measure) -> Measure:
    """The same measure, of the features of a subject that has some (`backbone`) in place of its embeddings."""

    def of(subject: Any) -> Any:
        return measure.of(subject.backbone) if set(measure.needs) <= subject.backbone.has else None

    return replace(
        measure,
        name=f"feature_{measure.name}",
        title=f"{measure.title} of features",
        meaning=f"Of the encoder's features, not the embeddings: {measure.meaning}",
        of=of,
        groups=(GROUP,),
        needs=("features",),
        monitor=False,
        healthy=None,
    )


FEATURE_UNIFORMITY, FEATURE_TOLERANCE, FEATURE_ALIGNMENT, FEATURE_CLASS_ALIGNMENT, FEATURE_INTERCLASS_UNIFORMITY = map(
    of_features,
    (
        embedding.uniformity,
        embedding.tolerance,
        embedding.alignment,
        embedding.class_alignment,
        embedding.interclass_uniformity,
    ),
)


@as_measure("RankMe", (GROUP,), needs=("features",))
def rankme(subject: Any) -> Any:
    """How many directions the encoder's features use: e to the entropy of their singular values, neither centred nor
    normalized (Garrido et al. 2023).
    """
    return geometry.rankme(subject.backbone.embeddings) if subject.backbone.healthy else None
