"""Runs of a study, carried out in this process: starting a worker takes longer than the small runs of tests."""

import pickle

from isotherm.experiments.measuring import carry_out


def carry_out_here(points, folder):
    """Every run of these, sent as to a worker, so that `isotherm study` and `run_points` find them done."""
    for point in {p.config.key: p for p in points}.values():
        config, groups = pickle.loads(pickle.dumps((point.config, point.measure)))
        carry_out(config, folder / "runs" / config.key, groups)
