"""Fine-tuning a detector on scenes, and asking it about others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotherm.data.scenes.scene import Scene, Scenes
from isotherm.data.sources.decode import pool
from isotherm.evaluate.detection.detector import detector
from isotherm.evaluate.detection.metrics import Judge
from isotherm.evaluate.detection.schedules import Schedule, rate_at
from isotherm.evaluate.models import GRAY, Model
from isotherm.probes.extract import home
from isotherm.probes.kept import Kept
from isotherm.streams import permutation, uniforms

EVERY = 100
"""Steps between two writings of what is kept."""
ASKED = 4
"""Test images at once."""
Note = Callable[[str], None]
Targets = list[dict[str, Tensor]]


def fit(
    model: Model,
    scenes: Scenes,
    schedule: Schedule,
    seed: int = 0,
    device: torch.device | str = "cpu",
    keep: Path | None = None,
    note: Note = lambda stage: None,
) -> nn.Module:
    """A detector around the model's encoder, all of it trained; the encoder itself is not changed.

    SGD as `schedule` says. At the end the means and variances of batch normalization are taken anew over some
    batches (precise BN, as MoCo does): those of training lag behind a short schedule's weights. The same seed
    gives the same new layers, images and draws, whatever the encoder is. With a file to `keep` its state in, what was
    interrupted goes on; whoever has used the detector deletes it.
    """
    where = torch.device(device)
    shown = [model.size, model.recipe.mean, model.recipe.std]
    kept = Kept(keep, [asdict(schedule), seed, scenes.fingerprint(), weight_sum(model.encoder), shown])
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []), torch.enable_grad():
        torch.manual_seed(seed)
        network = detector(model, len(scenes.classes), schedule).to(where).train()
        optimizer = torch.optim.SGD(_groups(network, schedule), schedule.rate, schedule.momentum)
        parts = {"network": network, "optimizer": optimizer}
        done = kept.load("detector", parts)
        for step, (images, targets) in _batches(model, scenes, schedule, seed, done, where):
            if step == schedule.steps:
                _forget_statistics(network)
            if step >= schedule.steps:
                with torch.no_grad():
                    network(images, targets)
                continue
            for group in optimizer.param_groups:
                group["lr"] = rate_at(schedule, step)
            optimizer.zero_grad()
            loss: Tensor = sum(network(images, targets).values())
            if not bool(torch.isfinite(loss)):
                raise ValueError(
                    f"the detector diverged at step {step}; use a lower rate (--lr {schedule.rate / 4:g})."
                )
            loss.backward()
            optimizer.step()
            note(f"step {step + 1:,} of {schedule.steps:,}, loss {float(loss.detach()):.3f}")
            if (step + 1) % EVERY == 0:
                kept.save("detector", parts, step + 1)
    return network.eval()


@torch.no_grad()
def judged(network: nn.Module, model: Model, scenes: Scenes, masks: bool) -> dict[str, dict[str, float | None]]:
    """COCO's metrics of a detector on scenes."""
    judge, where = Judge(scenes.classes, masks), home(network)
    network.eval()
    for first in range(0, len(scenes), ASKED):
        shown = [scenes.take(i) for i in range(first, min(first + ASKED, len(scenes)))]
        answers = network([_pixels(scene, model).to(where) for scene in shown])
        for scene, answer in zip(shown, answers, strict=True):
            said = {name: value.cpu() for name, value in answer.items()}
            judge.add(
                *(scene, said["boxes"], said["labels"] - 1, said["scores"]),
                masks=said["masks"][:, 0] if masks else None,
            )
    return judge.metrics()


def weight_sum(encoder: nn.Module) -> float:
    """What tells one encoder from another, for whoever goes on with what was kept."""
    return float(sum(p.double().abs().sum() for p in encoder.state_dict().values()))


def _groups(network: nn.Module, schedule: Schedule) -> list[dict[str, Any]]:
    """All parameters; those of batch normalization without weight decay."""
    norms = {id(p) for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
    parameters = list(network.parameters())
    return [
        {"params": [p for p in parameters if id(p) not in norms], "weight_decay": schedule.weight_decay},
        {"params": [p for p in parameters if id(p) in norms], "weight_decay": 0.0},
    ]


def _forget_statistics(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # from now on the plain mean of all batches


def _batches(
    model: Model, scenes: Scenes, schedule: Schedule, seed: int, first: int, where: torch.device
) -> Iterator[tuple[int, tuple[list[Tensor], Targets]]]:
    """From a step on, to the end of the statistics; each batch is read while the one before it is learnt from."""
    with pool() as threads:
        waiting = _asked(threads, scenes, schedule, seed, first)
        for step in range(first, schedule.steps + schedule.statistics):
            read = [future.result() for future in waiting]
            waiting = _asked(threads, scenes, schedule, seed, step + 1)
            yield (
                step,
                (
                    [_pixels(scene, model).to(where) for scene in read],
                    [_target(scene, schedule.masks, where) for scene in read],
                ),
            )


def _asked(
    threads: ThreadPoolExecutor, scenes: Scenes, schedule: Schedule, seed: int, step: int
) -> list[Future[Scene]]:
    """The scenes of a step, being read; a pure function of seed and step."""
    batch = min(schedule.batch, len(scenes))
    epoch, place = divmod(step, len(scenes) // batch)
    index = permutation(len(scenes), seed=seed, epoch=epoch, view=0)[place * batch : (place + 1) * batch]
    flips = uniforms(torch.tensor(index), 1, seed=seed, epoch=epoch, view=1)[:, 0] < 0.5

    def one(i: int, flip: bool) -> Scene:
        scene = scenes.take(i)
        return scene.mirrored() if schedule.flip and flip else scene

    return [threads.submit(one, i, flip) for i, flip in zip(index, flips.tolist(), strict=True)]


def _pixels(scene: Scene, model: Model) -> Tensor:
    """From 0 to 1, with the channels that the encoder takes; torchvision's detector normalizes and resizes them."""
    pixels = scene.pixels.float() / 255
    if model.channels == 3:
        return pixels
    if model.channels == 1:
        return (pixels * torch.tensor(GRAY)[:, None, None]).sum(0, keepdim=True)
    raise ValueError(f"{model.name} takes {model.channels} channels; scenes have 3, or 1 as grey.")


def _target(scene: Scene, masks: bool, where: torch.device) -> dict[str, Tensor]:
    learnt = ~scene.crowd
    target = {"boxes": scene.boxes[learnt].to(where), "labels": (scene.labels[learnt] + 1).to(where)}
    if masks:
        assert scene.masks is not None
        target["masks"] = scene.masks[learnt].to(where)
    return target
