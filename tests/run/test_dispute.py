"""The checker has the last word on what a solver and a formulation claim."""

import json
from pathlib import Path

import pytest

from milp_plan.backends import SolverReport, Stop
from milp_plan.check import verify
from milp_plan.cli.exits import Exit
from milp_plan.core import Verdict, Violation
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.strategies import schedule
from milp_plan.models.protocol import Scale
from milp_plan.run.model import RELATIVE_TOLERANCE, _dispute, _round_up
from tests.check.cases import problem
from tests.cli.cases import call, instance_file

from .cases import WEAK_BOUND, quick, weaken
from .formulations import IN_TURN, INCOMPLETE, LATE, UNREADABLE, write_wrapper


def pair():
    """Two operators of 10 ticks: 10 on two devices, 20 by the weak heuristic."""
    return problem("a b")


@pytest.fixture
def weak(monkeypatch):
    """Only the model finds the optimum."""
    weaken(monkeypatch)
    monkeypatch.setattr(schedule.ScheduleStrategy, "anneal", lambda way: None)


@pytest.mark.parametrize(
    ("damage", "because", "value"),
    [
        (
            LATE,
            "the plan's value is 1.7 units of the model, the solver claims 1; ",
            10,
        ),  # compacted
        (INCOMPLETE, "the checker refuses the plan that decode made: assignment: ", 20),
        (UNREADABLE, "decode refuses the solution: two placements of one operator", 20),
    ],
    ids=["late", "incomplete", "unreadable"],
)
def test_a_decode_that_lies_is_disputed(weak, tmp_path, damage, because, value):
    outcome = quick(
        pair(), formulation=write_wrapper(tmp_path, damage), rounds=0, time_limit_s=120.0
    )
    assert outcome.disputed
    assert outcome.record["verdict"] == "DISPUTED"
    assert outcome.record["disputed_because"].startswith(because)
    assert verify(outcome.problem, outcome.plan).value == outcome.value == value
    assert (outcome.bound, outcome.bound_name) == (WEAK_BOUND.value, WEAK_BOUND.name)
    assert not outcome.proved
    assert outcome.stop is not Stop.PROVED


def test_a_dispute_is_an_exit_code_of_its_own(weak, tmp_path):
    path = write_wrapper(tmp_path, LATE)
    limits = ["--time-limit", "120", "--rounds", "0", "--record-folder", tmp_path / "runs"]
    result = call(
        "solve", instance_file(tmp_path, pair()), "--formulation", path, *limits, "--json"
    )
    assert result.exit_code == Exit.NOT_VALID == 7
    assert json.loads(result.stdout)["verdict"] == "DISPUTED"
    assert "the checker disputes the solver: the plan's value is" in result.stderr


def test_what_a_formulation_gives_is_shown_though_a_heuristic_is_better(monkeypatch, tmp_path):
    """It was in the record only. The file asks for any plan, and runs all of it on one device."""
    monkeypatch.setattr(catalogue, "all_bounds", lambda *_: iter([WEAK_BOUND]))
    path = Path(write_wrapper(tmp_path, IN_TURN))
    text = path.read_text()
    any_plan = text.replace("INNER.build(*given)", "INNER.build(*given[:2], type(given[2])())")
    assert any_plan != text
    path.write_text(any_plan)
    limits = ["--time-limit", "120", "--rounds", "0", "--record-folder", tmp_path / "runs"]
    result = call("solve", instance_file(tmp_path, pair()), "--formulation", path, *limits)
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert rows[0][1:] == ["makespan", "10"]
    assert ["wrapper", "20", "ns"] in rows


def test_the_same_file_without_a_lie_is_believed(weak, tmp_path):
    outcome = quick(pair(), formulation=write_wrapper(tmp_path), time_limit_s=120.0)
    assert not outcome.disputed
    assert outcome.proved
    assert (outcome.value, outcome.bound_name) == (10, "wrapper")


def claim(value, objective, bound=None, *, scale):
    """What _dispute says about a valid plan of this value, in ticks."""
    report = SolverReport(Stop.PROVED, objective=objective, bound=bound)
    return _dispute(Verdict((), "makespan", value), report, scale, "1 us")


COUNTS = Scale(unit=10.0, grain=10)
"""A model that counts in whole grains."""

MEASURES = Scale(unit=1000.0, grain=1)
"""A model whose unit is more than a grain."""


@pytest.mark.parametrize(
    ("value", "objective", "agrees"),
    [
        (110, 11.0, True),
        (110, 11.0 - 1e-6, True),
        (110, 10.51, True),
        (110, 10.49, False),
        (120, 11.0, False),
        (100, 11.0, True),  # decoding may find a better plan than the solver did
    ],
)
def test_counted_values_agree_exactly(value, objective, agrees):
    assert (claim(value, objective, scale=COUNTS) == "") == agrees


@pytest.mark.parametrize("objective", [0.5, 3.0, 5000.0])
def test_measured_values_agree_within_the_tolerance(objective):
    ticks = objective * MEASURES.unit
    tolerance = RELATIVE_TOLERANCE * max(1.0, objective) * MEASURES.unit
    assert claim(ticks + 0.99 * tolerance, objective, scale=MEASURES) == ""
    stated = claim(ticks + 1.01 * tolerance, objective, scale=MEASURES)
    assert stated == (
        f"the plan's value is {(ticks + 1.01 * tolerance) / 1000:.6g} units of the model, "
        f"the solver claims {objective:.6g}; by `scale` a unit is 1 us"
    )
    assert claim(ticks - 50 * tolerance, objective, scale=MEASURES) == ""


def test_a_plan_below_the_proven_bound_disproves_it():
    assert claim(110, 11.0, 11.4, scale=COUNTS) == ""
    assert claim(100, 11.0, 10.6, scale=COUNTS) == (
        "the formulation's claim is refuted by its own plan: its value 10 is below the solver's "
        "bound 10.6"
    )
    assert claim(100, 11.0, 10.6, scale=Scale(10.0, 10, slack=0.2)) == ""
    low = 5.0 - 1.01 * 5 * RELATIVE_TOLERANCE
    assert "below the solver's bound" in claim(low * 1000, 5.0, 5.0, scale=MEASURES)
    high = 5.0 - 0.99 * 5 * RELATIVE_TOLERANCE
    assert claim(high * 1000, 5.0, 5.0, scale=MEASURES) == ""


def test_broken_rules_are_the_reason():
    violations = [Violation(f"rule{n}", (), "broken", n, 0) for n in range(5)]
    report = SolverReport(Stop.PROVED, objective=1.0)
    stated = _dispute(Verdict(tuple(violations), "makespan", 1), report, COUNTS, "10 ns")
    broken = "; ".join(str(violation) for violation in violations[:3])
    assert stated == f"the checker refuses the plan that decode made: {broken}"


@pytest.mark.parametrize(
    ("bound", "scale", "ticks"),
    [
        (None, COUNTS, None),
        (float("-inf"), COUNTS, None),
        (11.0, COUNTS, 110),
        (10.3, COUNTS, 110),
        (10.3, Scale(10.0, 5), 105),
        (10.3, Scale(10.0, 10, slack=0.4), 100),
        (11.0000001, COUNTS, 110),
        (-3.0, COUNTS, 0),
        (5.0, MEASURES, 5000),
        (5.0004, MEASURES, 5001),
    ],
)
def test_bounds_are_rounded_up_to_the_grain_after_a_safety_margin(bound, scale, ticks):
    assert _round_up(bound, scale) == ticks
