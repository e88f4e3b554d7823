"""Bounds by refuted horizons: never above the optimum, and as high as is known to be possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milp_plan.backends import Limits, highs
from milp_plan.core import Objective
from milp_plan.core.bound import Bound
from milp_plan.kinds.pipeline.bounds import best_floor
from milp_plan.kinds.pipeline.frames import frames, whole
from milp_plan.kinds.pipeline.slots import SlotRows
from milp_plan.kinds.pipeline.strategies.slot_bound import slot_bound
from milp_plan.lp.certificate import refutes
from tests.support.seeds import few
from tests.support.shops import pipeline_shop as shop
from tests.support.shops import random_tiny_shop
from tests.support.words import least_value

pytestmark = pytest.mark.untraced

LONG = 120.0
IPM: dict[str, bool | int | float | str] = {"solver": "ipm", "run_crossover": "off"}


@pytest.fixture(scope="module")
def session() -> Iterator[highs.Session]:
    with highs.Session() as found:
        yield found


@pytest.mark.parametrize("seed", few(range(30), 8))
def test_it_never_passes_the_optimum(seed: int, session: highs.Session) -> None:
    case = random_tiny_shop(seed)
    best = least_value(case)
    assert best is not None
    found = slot_bound(case, None, LONG, session=session)
    assert best_floor(case).value <= found.value <= best


@pytest.mark.parametrize("seed", range(100, 105))
def test_no_choice_of_points_refutes_a_plan(seed: int, session: highs.Session) -> None:
    """Coarse points, no merging, any step: the optimum's horizon always has share 1 or more."""
    case = random_tiny_shop(seed)
    best = least_value(case)
    assert best is not None
    for frame in frames(case, case.objective is Objective.SPAN):
        for step, merge in ((1, True), (1, False), (2, True), (3, False), (7, True)):
            rows = SlotRows(case, frame, best, step, merge=merge)
            report = session.solve(rows.model(), Limits(time_s=LONG), options=IPM)
            assert report.objective is not None
            assert -report.objective >= 1 - 1e-6, f"step {step}, merge {merge}"
            assert report.row_duals is not None
            only = [1] + [0] * (rows.num_columns - 1)
            assert not refutes(rows.model(), -report.row_duals, only, rows.boxes)


def test_merging_loses_nothing(session: highs.Session) -> None:
    case = shop("dualpipe", 4, 4, (3, 4, 2), 1, 3)
    shares, sizes = [], []
    for merge in (True, False):
        rows = SlotRows(case, whole(case), best_floor(case).value, 1, merge=merge)
        report = session.solve(rows.model(), Limits(time_s=LONG), options=IPM)
        assert report.objective is not None
        shares.append(report.objective)
        sizes.append(rows.num_columns)
    assert shares[0] == pytest.approx(shares[1], abs=1e-5)
    assert sizes[1] > 1.9 * sizes[0]


@pytest.mark.parametrize(
    ("case", "value"),
    [
        (("line", 4, 8, 3), 31),
        (("v", 4, 8, 2), 59),
        (("v", 4, 8, 3), 53),
        (("v", 4, 8, 4), 51),
        (("dualpipe", 8, 20, 7), 64),
        (("dualpipe", 8, 20, 5), 68),
        (("dualpipe", 8, 20, 4), 71),
        (("dualpipe", 8, 16, 5), 56),
    ],
    ids=str,
)
def test_unit_times_are_bounded_as_well_as_known(
    case: tuple[str, int, int, int], value: int, session: highs.Session
) -> None:
    """Optima (68: best known bound) of pipelines with F = B = W, proved here without a plan."""
    found = slot_bound(shop(*case[:3], cap=case[3]), None, LONG, session=session)
    assert found.value == value


def test_it_stops_at_the_plan_it_proves(session: highs.Session) -> None:
    heard: list[Bound] = []
    case = shop("line", 4, 8, cap=3)
    found = slot_bound(case, 31, LONG, session=session, on_progress=heard.append)
    assert heard == [found.bound]
    assert found.bound.name == "slots"
    assert "checked in integers" in found.bound.detail
    assert all(probe.horizon < 31 for probe in found.probes)
    assert slot_bound(case, 30, LONG, session=session).probes == ()
    assert slot_bound(case, None, LONG, lower=31, session=session).value == 31


def test_without_time_the_combinatorial_bound_remains(session: highs.Session) -> None:
    case = shop("v", 8, 16, cap=4)
    found = slot_bound(case, None, 0.0, session=session)
    assert found.value == best_floor(case).value
    assert found.probes == ()


def test_coarse_points_need_no_common_grid(session: highs.Session) -> None:
    """Times without a common divisor: points 700 times coarser than a tick still tell much."""
    case = shop("v", 4, 8, (1009, 1201, 701), 103, 2)
    assert case.tick == 1
    found = slot_bound(case, None, LONG, finest=700, session=session)
    assert found.value > best_floor(case).value
    assert all(probe.step >= 700 for probe in found.probes)


def test_the_span_of_one_device_is_bounded(session: highs.Session) -> None:
    case = shop("line", 3, 4, (3, 4, 2), cap=2, objective=Objective.SPAN)
    found = slot_bound(case, None, LONG, session=session)
    assert found.value >= best_floor(case).value
    assert all(probe.columns > 0 for probe in found.probes)


def test_a_horizon_below_a_path_is_refused() -> None:
    case = shop("line", 4, 2)
    with pytest.raises(ValueError, match="shorter than a path"):
        SlotRows(case, whole(case), 8, 1)
