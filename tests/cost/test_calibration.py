"""Calibration finds the rates that made the times, and predicts what was measured elsewhere."""

import random
from statistics import median

import pytest

from benchmarks.cost_model import GROUPS, HELD_OUT, degrees, predictions, rows_of, spearman
from milp_plan.cost.calibration import Calibration, MeasuredStep, calibrate
from milp_plan.cost.devices import DeviceSpec, LinkSpec
from tests.support.public import PUBLIC, needs_public

FILE = PUBLIC / "simulator" / "mlp_data_parallel.csv"
GRID = PUBLIC / "simulator" / "mlp_grid.csv"
KNOWN = needs_public("simulator")


def made(seed):
    rng = random.Random(seed)
    device = DeviceSpec("d", 10 ** rng.randint(12, 14), 10**12, 0, 1000, 1000, 5_000, "", "")
    links = {n: LinkSpec("l", rng.randint(1, 50) * 10**9, 10_000, 1000) for n in (2, 4)}
    return rng, Calibration(device, links)


def drawn(rng, devices):
    kernels = tuple(
        (rng.choice([0, 10 ** rng.randint(9, 12)]), 10 ** rng.randint(6, 9), rng.randint(1, 4))
        for _ in range(4)
    )
    return MeasuredStep(kernels, devices, ((10 ** rng.randint(6, 9), 2),))


@pytest.mark.parametrize("seed", range(8))
def test_rates_that_made_the_times_are_found(seed):
    rng, truth = made(seed)
    steps = [drawn(rng, devices) for devices in (1, 2, 4) for _ in range(20)]
    timed = [MeasuredStep(s.kernels, s.devices, s.reduced, truth.predict_ns(s)) for s in steps]
    found = calibrate(timed)
    for step in (drawn(rng, devices) for devices in (1, 2, 4) for _ in range(5)):
        assert found.predict_ns(step) == pytest.approx(truth.predict_ns(step), rel=1e-3)


def test_a_few_odd_rows_do_not_pull():
    rng, truth = made(1)
    steps = [drawn(rng, 1) for _ in range(30)]
    timed = [
        MeasuredStep(s.kernels, 1, s.reduced, truth.predict_ns(s) * (3 if i < 4 else 1))
        for i, s in enumerate(steps)
    ]
    found, last = calibrate(timed), steps[-1]
    assert found.predict_ns(last) == pytest.approx(truth.predict_ns(last), rel=1e-3)


@pytest.mark.parametrize("steps", [[], [MeasuredStep(((1, 1, 1),))]])
def test_without_times_there_is_nothing_to_fit(steps):
    with pytest.raises(ValueError, match="measured steps"):
        calibrate(steps)


def test_ranks():
    assert spearman([1, 2, 3], [10, 20, 30]) == 1.0
    assert spearman([1, 2, 3], [3, 2, 1]) == -1.0
    assert spearman([1, 2, 2], [1, 3, 3]) == 1.0


@KNOWN
def test_published_measurements():
    """D1: fitted to batches of 2048 and 8192, held against those of 4096."""
    rows = predictions(rows_of(FILE))
    assert len(rows) == 27
    assert {row["batch"] for row in rows} == {HELD_OUT}
    for gpus in GROUPS:
        own = [row for row in rows if row["gpus"] == gpus]
        errors = [abs(row["predicted"] / row["measured"] - 1) for row in own]
        assert len(errors) == 9
        assert median(errors) <= 0.03
    pairs = ([row["predicted"] for row in rows], [row["measured"] for row in rows])
    assert spearman(*pairs) >= 0.99


@KNOWN
def test_the_best_degrees_of_the_published_grid():
    """D2: fitted to up to 8 devices, the best of 16 is the published best."""
    *_, few, many = degrees(GRID)["choices"]
    assert (many["devices"], many["configurations"], many["best"]) == (16, 52, "4x4x1x1")
    assert many["ours"] == many["best"]
    assert (few["devices"], few["best"], few["same_family"]) == (8, "4x2x1x1", True)
    assert few["same"] == many["same"] == 5
    assert few["worth"] > 0.98
    assert many["spearman"] > 0.95
