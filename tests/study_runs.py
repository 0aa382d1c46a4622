"""Runs of a study, carried out in this process: starting a worker takes longer than the small runs of tests."""

from isotherm.experiments.measuring import carry_out


def carry_out_here(points, folder):
    """Every run of these, so that `isotherm study` and `run_points` find them done."""
    for config, groups in {p.config.key: (p.config, p.measure) for p in points}.values():
        carry_out(config, folder / "runs" / config.key, groups)
