"""Steps that nobody waits for: how often they ask the device, and that they come to what careful steps come to."""

import os
import warnings
from pathlib import Path

import pytest
import torch

import processes
from isotherm import world
from isotherm.methods import METHODS
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for
from isotherm.train.loop import Diverged, Run, Stopped, train
from isotherm.waiting import without_waiting
from small_runs import SMALL, lines, same, weights
from waits import Waits

LEARNABLE = {"name": "Learnable", "initial": 0.2}
CASES = {name: {"method": name} for name, spec in METHODS.items() if spec.encoder != "text_small"} | {
    "wmse": {"method": "wmse", "head.width": 8},
    "macl": {"loss": "MACLLoss"},
    "macl, learnable": {"loss": "MACLLoss", "loss.temperature": LEARNABLE},
    "learnable": {"loss.temperature": LEARNABLE},
    "swav with a queue": {"method": "swav", "method.queue": 64, "method.queue_start": 0},
    "mocov2 with the batch beside": {"method": "mocov2", "method.queue": 100, "method.intra_batch": True},
    "blur and solarize": {"recipe": "byol", "size": 16},
    "small crops": {"small_crops": 2, "small_size": 6},
    "parts": {"parts": 2},
    "adamw, clipped, skipping": {"optimizer": "adamw", "clip": 1.0, "nonfinite": "skip"},
    "lars, averaged": {"optimizer": "lars", "ema": 0.9},
}
EXEMPT = {
    "fnc": "its lists of false negatives are as long as the data make them",
    "wmse": "its sub-batches are drawn on the processor, and brought once a step, from pinned memory",
    "clip": "learns from pairs of images and texts, not from these images",
}


def queued(out, settings, log_every=4):
    """A run whose steps are queued, as on a GPU, and which prepares its batches itself."""
    network = {} if settings.get("method") == "vae" else {"encoder.widths": [8, 16]}
    few = {"images": 256, "batch": 32, "epochs": 1, "monitor": 0}
    config, place = (
        configure({**few, **network, **settings}),
        Runtime(out=out, quiet=True, prefetch=0, careful=False, log_every=log_every),
    )
    out.mkdir(exist_ok=True)
    run = Run(fabric_for(config, place), config, place)
    run.state.method.train()
    return run


def count_waits(run):
    """Where a window of steps waits: in its batches, in its steps, in the look at its end. The first window is for what
    is made once."""
    batches = run.loader.epoch(0)
    counts = []
    with run.closing():
        for _ in range(2):
            with Waits() as in_batches, without_waiting():  # as their device would have it
                window = [next(batches) for _ in range(run.place.log_every)]
            with Waits() as in_steps:
                for batch in window:
                    run._take(batch)
            with Waits() as in_look:
                run._look(False, False)
            counts = [in_batches, in_steps, in_look]
    return counts


@pytest.mark.parametrize("name", [name for name in CASES if name not in EXEMPT])
def test_a_device_is_waited_for_once_in_as_many_steps_as_are_logged_together(name, tmp_path):
    in_batches, in_steps, in_look = count_waits(queued(tmp_path / "a", CASES[name]))
    assert not in_batches.sites
    assert not in_steps.sites
    assert in_look.count == 1


def test_waits_are_counted(tmp_path):
    """The counter sees what a careful run asks, and every way to ask."""
    run = queued(tmp_path / "a", {})
    run.stepper.careful_until = 100
    _, in_steps, _ = count_waits(run)
    assert in_steps.count >= 5 * run.place.log_every
    x = torch.arange(4.0)
    for ask in (
        lambda: x.sum().item(),
        lambda: bool((x > 1).any()),
        x.tolist,
        x.cpu,
        lambda: x[x > 1],
        lambda: torch.nonzero(x),
        lambda: torch.unique(x),
        lambda: torch.tensor([1.0]),
    ):
        with Waits() as waits:
            ask()
        assert waits.count >= 1


@pytest.mark.parametrize("name", ["wmse"])
def test_what_is_drawn_on_the_processor_is_brought_once_a_step(name, tmp_path):
    run = queued(tmp_path / "a", CASES[name])
    _, in_steps, _ = count_waits(run)
    assert in_steps.count == run.place.log_every


SAME = {
    "simclr": {},
    "supcon": {"method": "supcon"},
    "mocov2": {"method": "mocov2", "method.queue": 100},
    "lars, averaged": {"optimizer": "lars", "ema": 0.9},
    "bank, adam": {"method": "bank", "optimizer": "adam", "lr": 0.001},
    "swav": {"method": "swav", "method.queue": 200, "method.queue_start": 0},
}
BAD = {"lr": 1e30, "head": "mocov2"}


def both(tmp_path, settings):
    """The folders of a careful run and of one whose steps are queued."""
    for careful in (True, False):
        place = Runtime(out=tmp_path / str(careful), quiet=True, careful=careful, log_every=3)
        train(configure({**SMALL, **settings}), place)
    return tmp_path / "True", tmp_path / "False"


@pytest.mark.parametrize("name", SAME)
def test_queued_steps_end_with_the_weights_and_the_lines_of_careful_ones(name, tmp_path):
    careful, queue = both(tmp_path, SAME[name])
    assert same(weights(careful), weights(queue))
    assert lines(careful) == lines(queue)


@pytest.mark.parametrize("settings", [{}, {"optimizer": "lars", "ema": 0.9}, {"method": "mocov2", "method.queue": 100}])
def test_queued_steps_that_are_not_finite_are_skipped_as_careful_ones_are(settings, tmp_path):
    careful, queue = both(tmp_path, {**BAD, **settings, "nonfinite": "skip"})
    assert lines(careful)[-1]["skipped"] > 0
    assert lines(careful) == lines(queue)
    assert same(weights(careful), weights(queue))


def test_queued_steps_stop_where_careful_ones_stop(tmp_path):
    said = []
    for careful in (True, False):
        out = tmp_path / str(careful)
        with pytest.raises(Diverged) as error:
            train(configure({**SMALL, **BAD, "epochs": 5}), Runtime(out=out, quiet=True, careful=careful))
        said.append(str(error.value).replace(str(out), ""))
    assert said[0] == said[1]
    a, b = (torch.load(tmp_path / name / "nonfinite.pt", weights_only=True) for name in ("True", "False"))
    assert torch.equal(a["indices"], b["indices"])
    assert a["step"] == b["step"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({}, "zero vectors, which have no direction"), ({"method": "barlow", "nonfinite": "skip"}, None)],
)
def test_what_a_queued_step_cannot_say_is_said_when_it_is_made_again(settings, sentence, tmp_path):
    run = queued(tmp_path / "a", settings)
    with torch.no_grad():
        for p in run.state.method.network.parameters():
            p.zero_()
    if sentence is None:  # equal embeddings are nothing wrong here
        run.to_the_end()
        return
    with pytest.raises(ValueError, match=sentence):
        run.to_the_end()


def test_images_without_labels_are_refused_when_the_step_is_made_again(tmp_path):
    for method in ("supcon", "supervised"):
        run = queued(tmp_path / method, {"method": method})
        run.state.built.material.images.labels[:] = -1
        with pytest.raises(ValueError, match="label for every image"):
            run.to_the_end()


def test_queued_steps_that_are_stopped_go_on_to_the_same_weights(tmp_path):
    careful, _ = both(tmp_path, {})
    config, place = configure(SMALL), Runtime(out=tmp_path / "b", quiet=True, careful=False, log_every=3)
    place.out.mkdir()
    stopped = Run(fabric_for(config, place), config, place)
    stopped.asked_to_stop = "SIGTERM"
    with pytest.raises(Stopped, match="after step 1 "):  # at once, though the next line were due after three
        stopped.to_the_end()
    train(config, Runtime(out=place.out, quiet=True, careful=False, log_every=3, resume=True))
    assert same(weights(careful), weights(place.out))
    assert lines(careful) == lines(place.out)


def one_of_two(rank, folder, port):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test"}
    warnings.simplefilter("ignore")
    for name in ("simclr", "mocov2", "supcon", "parts"):
        counts = count_waits(queued(Path(folder) / name, CASES[name]))
        assert [waits.count for waits in counts] == [0, 0, 1], (name, [waits.sites for waits in counts])
    few = {"images": 160, "batch": 32, "epochs": 2, "monitor": 0, "precision": "64-true", "encoder.widths": [8, 16]}
    for careful in (True, False):
        place = Runtime(out=Path(folder) / str(careful), quiet=True, careful=careful, log_every=3)
        train(configure({**few, **BAD, "lr": 1e300, "nonfinite": "skip"}), place)
    world.leave()


@pytest.mark.slow
def test_two_processes_wait_as_seldom_and_skip_the_same_steps(tmp_path):
    processes.two(one_of_two, str(tmp_path), 20000 + os.getpid() % 20000)
    careful, queue = tmp_path / "True", tmp_path / "False"
    assert lines(careful)[-1]["skipped"] > 0
    assert lines(careful) == lines(queue)
    assert same(weights(careful), weights(queue))
