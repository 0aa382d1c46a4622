"""Settings that are typed and that nothing would read: one sentence says so, instead of a run that ignores them.

Only what is typed: a file of settings, as every run keeps one, has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isotherm.methods.build import METHODS, method_spec
from isotherm.train.config import Config


@dataclass(frozen=True)
class Unread:
    """Settings, when nobody reads them, and the rest of the sentence that begins with their name."""

    names: tuple[str, ...]
    when: Callable[[Config], bool]
    why: str


def _swd(config: Config) -> bool:
    return config.loss.name == "GeneralizedContrastiveLoss" and config.loss.settings["distribution"] == "swd"


def _pairs_itself(config: Config) -> bool:
    return config.method.name == "simcse" and config.method.settings["pairing"] != "own"


_PREDICTING = ", ".join(name for name, spec in METHODS.items() if spec.predictor)
RULES = (
    Unread(
        ("ratio",),
        lambda c: c.imbalance != "long-tail",
        "is of a long tail; say --imbalance long-tail, or leave it out",
    ),
    Unread(
        ("digit_source", "digit_size", "digit_places", "digit_blend"),
        lambda c: not c.digits,
        "is of pasted digits, and there are none; say --digits 64, or leave it out",
    ),
    Unread(("trust",), lambda c: c.optimizer != "lars", "is of LARS; say --optimizer lars, or leave it out"),
    Unread(
        ("nesterov",),
        lambda c: c.nesterov and c.optimizer != "sgd",
        "is of SGD; say --optimizer sgd, or leave it out",
    ),
    Unread(
        ("factor",),
        lambda c: not c.milestones,
        "multiplies the rate at milestones, and there are none; say --schedule step --milestones [30], or leave it out",
    ),
    Unread(
        ("monitor_images",),
        lambda c: not c.monitor,
        "is of what is measured on the way, which --monitor 0 turns off; leave one of them out",
    ),
    Unread(
        ("predictor",),
        lambda c: not method_spec(c.method.name).predictor,
        f"is of methods that predict ({_PREDICTING}), and this one does not; leave it out, or use one of those",
    ),
    Unread(
        ("predictor.width",),
        lambda c: c.predictor.settings.get("width") != c.head.settings.get("width"),
        "follows the embedding, with which a prediction is compared; say --head.width",
    ),
    Unread(
        ("method.queue_start",),
        lambda c: c.method.name == "swav" and not c.method.settings["queue"],
        "is of a queue, and there is none; say --method.queue 3840, or leave it out",
    ),
    Unread(
        ("method.teacher_start",),
        lambda c: c.method.name == "dino" and not c.method.settings["teacher_warmup"],
        "is where the teacher's warm-up begins, and there is none; say --method.teacher_warmup 30, or leave it out",
    ),
    Unread(
        ("method.plane_weight",),
        lambda c: not c.randbit,
        "is of RandBit planes, and there are none; say --randbit 8, or leave it out",
    ),
    Unread(
        ("loss.t_pos",),
        lambda c: c.loss.settings.get("attraction") == "uniform",
        "is of the weights of positives, which --loss.attraction uniform drops; leave one of them out",
    ),
    Unread(
        ("loss.t_neg",),
        lambda c: c.loss.settings.get("repulsion") == "uniform",
        "is of the weights of negatives, which --loss.repulsion uniform drops; leave one of them out",
    ),
    Unread(
        ("loss.temperature", "loss.include_self"),
        _swd,
        "is of the log-sum-exp, and the distribution is swd; say --loss.distribution lse, or leave it out",
    ),
    Unread(
        ("loss.symmetric", "loss.negatives_from"),
        _pairs_itself,
        "is of the loss's own pairing, and method 'simcse' pairs sentences itself; say --method.pairing own, or "
        "--method.symmetric for both directions",
    ),
)


def is_unread(name: str, config: Config) -> bool:
    """Whether a setting (its dotted name) has no meaning in this configuration."""
    return any(name in rule.names and rule.when(config) for rule in RULES)


def refuse_unread(typed: Collection[str], config: Config) -> None:
    """Refuse a setting among those that were typed (dotted names) that has no meaning in this configuration."""
    for rule in RULES:
        for name in typed:
            if name in rule.names and rule.when(config):
                raise ValueError(f"--{name} {rule.why}.")
