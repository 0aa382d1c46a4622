"""This process among its peers. The only folder that knows `torch.distributed`.

Every process holds its own queries and sees everyone's candidates, with gradient: gathered, or visiting block by
block around a ring (`exchange`), which needs memory for a few blocks and not for the batch. Where several train
together (`company`), each shows the others that it lives, and none waits for one that does not.
"""

from isotherm.world.collectives import (
    any_of,
    begin_sum,
    broadcast,
    counts,
    equal_shares,
    everyone,
    gather,
    largest,
    mean,
    rank,
    size,
    total,
    wait,
)
from isotherm.world.company import Lost, company
from isotherm.world.joining import join, join_again, leave
from isotherm.world.presence import doing, taken, waiting
from isotherm.world.ring import Exchange, Ring, by_ring, exchange

__all__ = [
    "Exchange",
    "Lost",
    "Ring",
    "any_of",
    "begin_sum",
    "broadcast",
    "by_ring",
    "company",
    "counts",
    "doing",
    "equal_shares",
    "everyone",
    "exchange",
    "gather",
    "join",
    "join_again",
    "largest",
    "leave",
    "mean",
    "rank",
    "size",
    "taken",
    "total",
    "wait",
    "waiting",
]
