"""A study on a Ray cluster of two machines, one of which dies: the other finishes, from the last checkpoints."""

import importlib.util
import json
import threading
import time

import pytest

from isotherm.experiments.execute import run_points
from isotherm.experiments.study import Point
from isotherm.train.commandline import configure
from small_runs import SMALL

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_a_machine_that_dies_takes_no_run_with_it(tmp_path):
    import ray  # noqa: PLC0415
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    points = [Point("a", {}, seed, configure({**SMALL, "epochs": 40, "seed": seed})) for seed in range(3)]
    killed = threading.Event()

    def kill_when_two_are_at_work():
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and not killed.is_set():
            if len(list(tmp_path.glob("runs/*/metrics.jsonl"))) >= 2:
                cluster.remove_node(doomed, allow_graceful=False)
                killed.set()
            time.sleep(0.2)

    watcher = threading.Thread(target=kill_when_two_are_at_work)
    watcher.start()
    try:
        records = run_points(points, tmp_path, ray=cluster.address)
        assert killed.is_set()
        deadline = time.monotonic() + 60  # the cluster takes its time to say that a node is gone
        while sum(node["Alive"] for node in ray.nodes()) > 1 and time.monotonic() < deadline:
            time.sleep(0.5)
        assert sum(node["Alive"] for node in ray.nodes()) == 1
    finally:
        killed.set()
        watcher.join()
        ray.shutdown()
        cluster.shutdown()
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(lines) == len(records) == 3
    assert all(line["state"] == "finished" for line in lines), lines
