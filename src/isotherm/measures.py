"""What an embedding is like: numbers that explain what a loss did to it. No plots."""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.temperature import scaled
from isotherm.types import TemperatureLike


def hardness(s: Tensor, temperature: TemperatureLike) -> Tensor:
    r"""Each negative's share of the gradient that the negatives of one query receive together.

    .. math:: r_i(s_{ij}) = \frac{e^{s_{ij}/\tau}}{\sum_{k \ne i} e^{s_{ik}/\tau}}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 5. `s` holds the similarities of a query to its negatives along the last
    dimension; the result has its shape and sums to 1 there. At low temperature the nearest negatives take it all.
    """
    return torch.softmax(scaled(temperature)(s.to(torch.promote_types(s.dtype, torch.float32))), dim=-1)
