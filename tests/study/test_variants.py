"""Sweeps over limits: neighbours' plans, what is stored, what Ctrl-C leaves."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from milp_plan.backends import Stop
from milp_plan.core import UnsupportedProblemError
from milp_plan.core.sharding import sharding_problem
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from milp_plan.run import Settings, solve
from milp_plan.study import variants as module
from milp_plan.study.store import Store
from milp_plan.study.variants import Sweep, axes_of
from tests.report.plans import two_devices

FACTORS = [Fraction(n, 4) for n in (1, 2, 4, 5)]
SETTINGS = Settings(time_limit_s=100.0)


def _sweep(folder: Path, problem: Any, **axes: list[Fraction]) -> Sweep:
    return Sweep(problem, axes_of(**axes), SETTINGS, Store(folder))


def test_each_variant_is_what_a_run_of_its_own_finds(tmp_path: Path) -> None:
    sweep = _sweep(
        tmp_path, two_devices(), memory=FACTORS, devices=[Fraction(1), Fraction(2), Fraction(3)]
    )
    sweep.run()
    assert len(sweep.points) == 12
    for point in sweep.points:
        alone = solve(point.problem, SETTINGS)
        assert point.found is not None
        assert point.found.proved == alone.proved
        assert point.value == alone.value
    values = [point.value for point in sweep.points]
    assert None in values
    by_place = {point.place: point.value for point in sweep.points}
    for (devices, memory), value in by_place.items():  # more of anything is never worse
        for less in ((devices - 1, memory), (devices, memory - 1)):
            known = by_place.get(less)
            assert known is None or (value is not None and value <= known)
    front = sweep.front()
    assert front
    assert len({point.value for point in front}) < len(values)


def test_what_is_stored_is_not_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sweep(tmp_path, two_devices(), memory=FACTORS[1:]).run()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "plan_variant", never)
    again = _sweep(tmp_path, two_devices(), memory=FACTORS[1:])
    again.run()
    assert all(point.again for point in again.points)
    assert again.points[-1].value is not None
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_interruption_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    real = module.plan_variant

    def twice(*arguments: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(module, "plan_variant", twice)
    sweep = _sweep(tmp_path, two_devices(), memory=FACTORS)
    sweep.run()
    assert sweep.interrupted
    assert [point.found is not None for point in sweep.points] == [True, True, False, False]
    monkeypatch.setattr(module, "plan_variant", real)
    later = _sweep(tmp_path, two_devices(), memory=FACTORS)
    later.run()
    assert [point.again for point in later.points] == [True, True, False, False]
    assert not later.interrupted


def test_a_plan_that_was_interrupted_is_the_start_of_the_next_run(tmp_path: Path) -> None:
    sweep = _sweep(tmp_path, two_devices(), memory=FACTORS[2:3])
    sweep.run()
    (point,) = sweep.points
    assert point.found is not None
    point.found = module.dataclasses.replace(point.found, stop=Stop.INTERRUPTED)
    sweep._save(point)
    again = _sweep(tmp_path, two_devices(), memory=FACTORS[2:3])
    again.run()
    assert not again.points[0].again
    assert again.points[0].found is not None
    assert again.points[0].found.started


def test_no_variant_is_worse_than_a_neighbour_whose_plan_it_could_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the search finds nothing: plans are taken over, both ways."""
    problem = sharding_problem("two", [[9, 1], [9, 1]], usages=[[1, 5], [1, 5]], limit=8)
    best = solve(problem, SETTINGS)
    real = module.plan_variant

    def lazy(variant: Any, settings: Settings, starts: Any, hook: Any) -> Any:
        found = real(variant, settings, starts, hook)
        if variant.limit != 9:
            return module.dataclasses.replace(found, plan=None, verdict=None, value=None, bound=0)
        return found

    monkeypatch.setattr(module, "plan_variant", lazy)
    sweep = _sweep(tmp_path, problem, memory=[Fraction(n, 8) for n in (2, 6, 9, 12)])
    sweep.run()
    values = [point.value for point in sweep.points]
    assert values == [None, best.value, best.value, best.value]
    stored = _sweep(tmp_path, problem, memory=[Fraction(n, 8) for n in (2, 6, 9, 12)])
    stored.run()
    assert [point.value for point in stored.points] == values


def test_axes_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    problem = PackingProblem("one", (Buffer("b", 0, 1, 4),), 7)
    for axis in ("devices", "bandwidth"):
        with pytest.raises(UnsupportedProblemError, match=axis):
            _sweep(tmp_path, problem, **{axis: [Fraction(2)]})
    with pytest.raises(UnsupportedProblemError, match="memory"):
        _sweep(tmp_path, PackingProblem("one", problem.buffers), memory=[Fraction(1)])
