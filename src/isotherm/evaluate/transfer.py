"""`isotherm evaluate ENCODER --on DATA,…`: what an encoder, ours or anybody's, knows about other data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from isotherm import probes as run
from isotherm.evaluate.assessment import Options, Table, check_probes
from isotherm.evaluate.images import NEIGHBOURS, SHOTS
from isotherm.evaluate.models import Model, Wanted, open_model
from isotherm.evaluate.targets import Target, open_target
from isotherm.files import Json, put_json
from isotherm.inspect.health import Health
from isotherm.probes import PROTOCOLS, Score, Spread
from isotherm.probes.extract import parts
from isotherm.probes.finetune import EPOCHS, finetuned
from isotherm.probes.kept import KEY
from isotherm.probes.linear import chosen
from isotherm.probes.multi_label import multi_label_linear
from isotherm.probes.scores import MultiLabelScore, ranks, score
from isotherm.views import recipe as recipe_of

PROBES = ("knn", "linear", *PROTOCOLS, "fewshot", "finetune", "fewshot-finetune")
"""What `--probe` takes with `--on`."""
SEVERAL = ("linear", "finetune")
"""Those that can say several classes at once."""
Result = Score | Spread | MultiLabelScore


@dataclass(frozen=True)
class Tuning:
    """How fine-tuning is done."""

    epochs: int = EPOCHS
    lr: float | Literal["search"] | None = None
    """None: DySTreSS's."""
    recipe: str = "none"
    """How training images are shown; the paper does not say: as they are."""
    out: Path | None = None
    """Where the state is kept, so that what is interrupted goes on."""
    at_most: int | None = None
    """Training images at most."""
    shots: int = SHOTS


@dataclass(frozen=True, eq=False)
class OnSet:
    """What the probes say on one set, and the logits of one of them, for the page."""

    target: Target
    scores: dict[str, Result]
    logits: Tensor | None = None
    """Of every class, for the test images, of the last probe that has them."""
    by: str = ""
    """Which probe that was."""
    features: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, eq=False)
class TransferAssessment:
    """What an encoder knows about several sets."""

    model: Model
    sets: tuple[OnSet, ...]
    health: Health | None = field(default=None)

    @property
    def unfinished(self) -> str:
        return self.model.unfinished

    def tables(self) -> list[Table]:
        rows = [(on.target.name, *row_of(name, s)) for on in self.sets for name, s in on.scores.items()]
        heads = ("set", "probe", "score", "95 % interval", "balanced, or sd over seeds", "AUC", "n")
        return [Table(heads, tuple(rows))]

    def lines(self) -> list[str]:
        model = self.model
        lines = [f"{model.name}: images of {model.size}×{model.size}, {model.channels} channels", *model.notes]
        return lines + [f"{on.target.name}, {note}" for on in self.sets for note in on.target.notes]

    def as_dict(self) -> Json:
        return {
            "encoder": self.model.name,
            "size": self.model.size,
            "unfinished": self.unfinished,
            "notes": list(self.model.notes),
            "sets": {
                on.target.name: {
                    "train": len(on.target.train),
                    "test": len(on.target.test),
                    "notes": list(on.target.notes),
                    "probes": {name: s.as_dict() for name, s in on.scores.items()},
                }
                for on in self.sets
            },
        }


def row_of(name: str, result: Result) -> tuple[str, ...]:
    """A score as people read it."""
    area = getattr(result, "auc", None)
    shown = "–" if area is None else f"{100 * area:.2f}"
    if isinstance(result, MultiLabelScore):
        balanced = f"{100 * result.balanced:.2f} %"
        return name, f"mAP {100 * result.mean_ap:.2f} %", "–", balanced, shown, f"{result.n:,}"
    low, high = result.interval
    value = result.accuracy if isinstance(result, Score) else result.mean
    other = f"{100 * result.balanced:.2f} %" if isinstance(result, Score) else f"sd {100 * result.sd:.2f}"
    return name, f"{100 * value:.2f} %", f"{100 * low:.2f} to {100 * high:.2f}", other, shown, f"{result.n:,}"


def assess_on(
    source: str,
    data: Sequence[str],
    probes: Sequence[str] = ("knn", "linear"),
    options: Options = Options(),  # noqa: B008
    wanted: Wanted = Wanted(),  # noqa: B008
    tuning: Tuning = Tuning(),  # noqa: B008
) -> TransferAssessment:
    """Probe an encoder on other sets: their training part is learnt from, their test part is asked."""
    check_probes(probes, PROBES, "other data")
    if not data:
        raise ValueError("--on names no set.")
    options.check()
    options.note("opening the encoder", source)
    model = open_model(source, wanted)
    sets = tuple(_on_set(name, model, probes, options, tuning) for name in dict.fromkeys(data))
    assessment = TransferAssessment(model, sets)
    if options.json is not None:
        put_json(options.json, assessment.as_dict())
    if options.html is not None:
        from isotherm.evaluate.pictures import transfer_page  # noqa: PLC0415 - only where it is wanted

        transfer_page(assessment, options).write(options.html)
    return assessment


def _on_set(name: str, model: Model, probes: Sequence[str], options: Options, tuning: Tuning) -> OnSet:
    options.note(f"reading {name}", "")
    target = open_target(name, model, tuning.at_most, options.seed)
    if target.several and (wrong := [p for p in probes if p not in SEVERAL]):
        raise ValueError(
            f"an image of {name} may show several classes; {wrong[0]} cannot say that, {' and '.join(SEVERAL)} can."
        )
    scores: dict[str, Result] = {}
    fixed: tuple[Tensor, Tensor] | None = None
    logits, by = None, ""
    for probe in probes:
        if not probe.endswith("finetune") and fixed is None:
            options.note(f"{name}: features", "")
            fixed = target.features(model, "train"), target.features(model, "test")
        options.note(f"{name}: {probe}", "")
        results, given = _probe(probe, model, target, fixed, options, tuning)
        scores |= results
        if given is not None:
            logits, by = given, probe
    return OnSet(target, scores, logits, by, fixed)


def _probe(
    name: str, model: Model, target: Target, fixed: tuple[Tensor, Tensor] | None, options: Options, tuning: Tuning
) -> tuple[dict[str, Result], Tensor | None]:
    train, test, seed = target.train, target.test, options.seed
    if name.endswith("finetune"):
        shown = recipe_of(
            tuning.recipe, 1, model.size, (model.recipe.mean, model.recipe.std) if model.recipe.mean else None
        )
        if name == "fewshot-finetune":
            few = run.few_shot_finetune(
                model.encoder, train, test, shown, tuning.shots, epochs=tuning.epochs, lr=tuning.lr, size=model.size
            )
            return {f"fine-tuned, {tuning.shots} per class": few}, None
        keep = None if tuning.out is None else tuning.out / f"finetune-{_file_name(target.name)}-{KEY}.pt"
        result, logits = finetuned(
            *(model.encoder, train, test, shown, target.class_weights, tuning.epochs),
            lr=tuning.lr, seed=seed, size=model.size, keep=keep,
            note=lambda stage: options.note(f"{target.name}: {stage}", ""),
        )  # fmt: skip
        return {name: result}, logits
    assert fixed is not None
    if target.several:
        several, logits = multi_label_linear(fixed[0], train, fixed[1], test, seed)
        return {name: several}, logits
    given = (fixed[0], train.labels, fixed[1], test.labels)
    classes = len(train.classes) or None
    if name == "knn":
        ks = [k for k in NEIGHBOURS if k <= len(train)]
        return {f"knn, k = {k}": s for k, s in run.knn(*given, ks=ks, classes=classes).items()}, None
    if name == "fewshot":
        return {f"linear, {tuning.shots} per class": run.few_shot(*given, tuning.shots, classes=classes)}, None
    if name == "linear":
        return _linear(given, classes, seed)
    return {name: run.follow(name, *given, seed=seed, classes=classes)}, None


def _linear(
    given: tuple[Tensor, Tensor, Tensor, Tensor], classes: int | None, seed: int
) -> tuple[dict[str, Result], Tensor]:
    """The exact linear probe, with its logits."""
    checked = parts(*given, classes)
    classifier, settings = chosen(checked.train, checked.train_labels, checked.classes, None, 0.1, seed)
    with torch.no_grad():
        logits = classifier(checked.test)
    rank = ranks(logits, checked.test_labels)
    return {"linear": score("linear", rank, checked.test_labels, checked.classes, seed, settings, logits)}, logits


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)[-60:]
