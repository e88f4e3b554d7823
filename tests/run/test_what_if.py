"""Problems with one thing changed: what stays true of them, and what planning them says."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import pytest

from milp_plan.core import Amount, InputError, PlanningProblem, UnsupportedProblemError
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from milp_plan.kinds.schedule.reasons import with_devices
from milp_plan.run import Settings, kind_of, read, solve
from milp_plan.run.comparison import Side, compare
from milp_plan.run.heuristic import run_heuristic
from milp_plan.run.reasons.base import Why
from milp_plan.run.reasons.words import effect_lines
from milp_plan.run.what_if import ask, more_memory, moved, plan_variant, questions
from tests.report.plans import plan_of_two_devices, two_devices
from tests.support.sharding import tense_problem

INSTANCES = Path(__file__).parents[2] / "instances"
MIXED = "two-tower-tiny-inference-1xH100+1xA100.json"
SETTINGS = Settings(time_limit_s=100.0)


def _mixed() -> PlanningProblem:
    problem: PlanningProblem = read(INSTANCES / MIXED)[1]
    return problem


def test_an_operator_stays_on_its_device() -> None:
    """On each device in turn, also the only one of its class; the plan is one of the problem."""
    problem = _mixed()
    kind, part = kind_of(problem), problem.graph.operators[0].name
    places = kind.reasons().places(problem, part)
    assert len(places) == 2
    for place in places:
        pinned = kind.reasons().pinned(problem, part, place)
        found = run_heuristic(pinned, "heft", SETTINGS)
        assert found.plan is not None
        assert found.plan.run(part).devices == (place,)
        plan = kind.reasons().carried(found.plan)
        verdict = kind.verify(problem, plan)
        assert verdict.ok
        assert verdict.value == found.value
    with pytest.raises(UnsupportedProblemError, match="nowhere"):
        moved(problem, part, "nowhere")
    with pytest.raises(UnsupportedProblemError, match="none of its operators"):
        moved(problem, "nothing", places[0])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_other_numbers_of_devices(count: int) -> None:
    cluster = two_devices().cluster
    other = with_devices(cluster, count)
    assert len(other.devices) == count
    assert len(set(other.device_names)) == count
    for one, two in itertools.permutations(other.device_names, 2):
        assert other.channel(one, two) is not None  # as all devices of the model are joined
    with pytest.raises(InputError, match="at least 1"):
        with_devices(cluster, 0)


def test_a_valid_start_is_never_lost() -> None:
    """Where the search has no time at all, the start is the answer, and nothing is claimed."""
    problem, plan = two_devices(), plan_of_two_devices()
    value = kind_of(problem).verify(problem, plan).value
    found = plan_variant(problem, Settings(time_limit_s=1e-9), [plan])
    assert found.value is not None
    assert value is not None
    assert found.value <= value
    assert found.started
    effect = ask(more_memory(problem, Amount(Fraction(2**20))), plan, value, SETTINGS)
    assert effect.change is not None
    assert effect.change <= 0


def test_less_memory_may_leave_no_plan() -> None:
    problem = PackingProblem("two", (Buffer("a", 0, 1, 4), Buffer("b", 0, 1, 4)), 9)
    outcome = solve(problem, SETTINGS)
    effect = ask(
        more_memory(problem, Amount(Fraction(2)), less=True), outcome.plan, outcome.value, SETTINGS
    )
    assert effect.result.infeasible_reason
    assert effect.change is None
    assert not effect.result.started
    with pytest.raises(UnsupportedProblemError, match="no limit"):
        more_memory(PackingProblem("two", problem.buffers), Amount(Fraction(1)))


def test_questions_that_mean_nothing_are_left_out_of_the_usual() -> None:
    problem = PackingProblem("one", (Buffer("a", 0, 1, 4),), 9)
    (only,) = questions(problem, ["usual"], Why())
    assert only.text == "memory +1 GiB each"
    for text in ("devices+1", "link"):
        with pytest.raises(UnsupportedProblemError):
            questions(problem, [text], Why())


def test_a_change_of_costs_is_told_as_a_number() -> None:
    """It was a fraction, which has no thousands: a traceback after all changes were planned."""
    problem = tense_problem(6)
    found = solve(problem, SETTINGS)
    (more,) = questions(problem, ["memory+1"], Why())
    effect = ask(more, found.plan, found.value, SETTINGS)
    assert effect.change is not None
    assert effect.change < 0
    _, line = effect_lines(problem, [effect], found.value)
    assert line.endswith(f"better by {-int(effect.change):,}")


def test_costs_of_what_moved_are_those_of_the_plans() -> None:
    """Work and transfers of all groups together are what the plans differ by."""
    problem = _mixed()
    sides = []
    for name in ("heft", "single_device"):
        found = run_heuristic(problem, name, SETTINGS)
        assert found.plan is not None
        assert found.verdict is not None
        sides.append(Side(problem, found.plan, found.verdict))
    told = compare(*sides)
    assert told.moves
    devices = problem.cluster.device_names

    def spent(side: Side, names: tuple[str, ...]) -> int:
        return sum(side.verdict.components[f"busy {name}"] for name in names)

    work = sum(move.cost.get("work", 0) for move in told.moves)
    assert work == spent(sides[1], devices) - spent(sides[0], devices)
    journeys = [
        sum((trip.stop_ticks or 0) - (trip.start_ticks or 0) for trip in side.plan.transfers)
        for side in sides
    ]
    assert sum(m.cost.get("transfers", 0) for m in told.moves) == journeys[1] - journeys[0]
    values = [side.verdict.value for side in sides]
    assert told.change == (values[1] or 0) - (values[0] or 0) != 0
