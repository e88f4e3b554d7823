"""Local updates as a kind: law, files, bounds, planners and the way, against every set of cuts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.core import InputError, Units
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.draw.canvas import write_figure
from milp_plan.kinds.local_updates.bounds import (
    kept_bound,
    least_price,
    local_updates_obstacle,
    work_bound,
)
from milp_plan.kinds.local_updates.check import verify_local_updates
from milp_plan.kinds.local_updates.planners import CutSearch, greedy
from milp_plan.kinds.local_updates.problem import LocalUpdatesPlan, LocalUpdatesProblem, Stage
from milp_plan.run.kinds import kind_of, read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.support.local_updates import least, step
from tests.support.planted_local_updates import planted_local_updates
from tests.support.tiny import short_lines

LINE = (Stage("a", 1, 2, 1, most=2), Stage("b", 1, 2, 1), Stage("c", 1, 2, 1))
PROBLEM = LocalUpdatesProblem("line", LINE, 3, 1, 1)


def plan(*cuts, name="line", **claims):
    return LocalUpdatesPlan(name, cuts, **claims)


# -- law -------------------------------------------------------------------------------------------


def test_value_by_hand():
    verdict = verify_local_updates(PROBLEM, plan("b"))
    assert verdict.ok
    assert verdict.components == {"a": 9, "b": 12, "c": 9}
    assert verdict.value == step(PROBLEM, {1}) == 18
    alone = replace(PROBLEM, stages=LINE[1:2])
    assert verify_local_updates(alone, plan()).value == 9


def test_a_cut_lets_backwards_go_at_once():
    """Two stages, one micro-batch: with a cut the first stage stops long before the second."""
    two = LocalUpdatesProblem("two", (Stage("a", 1, 2, 3), Stage("b", 1, 2)), 1, 4)
    assert verify_local_updates(two, plan(name="two")).value == 1 + 4 + 1 + 2 + 4 + 2
    assert verify_local_updates(two, plan("a", name="two")).value == 1 + 4 + 1 + 2


BROKEN = {
    "identity": plan("b", name="other"),
    "boundary unknown": plan("b", "d"),
    "boundary last": plan("b", "c"),
    "boundary twice": plan("b", "b"),
    "budget": plan("a", "b"),
    "memory": plan(),
    "claim": plan("b", value=3),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rule_bites_and_nothing_else(case):
    verdict = verify_local_updates(PROBLEM, BROKEN[case])
    assert {violation.rule for violation in verdict.violations} == {case.split()[0]}
    assert (verdict.value is None) == (case in ("boundary unknown", "boundary last"))


def test_claims_of_another_budget_are_not_compared():
    theirs = plan("b", value=9, fingerprint="another", parent=PROBLEM.parent)
    assert verify_local_updates(PROBLEM, theirs).ok
    unrelated = verify_local_updates(PROBLEM, replace(theirs, parent=None)).violations
    assert [entry.rule for entry in unrelated] == ["identity"]


@pytest.mark.parametrize("seed", range(100))
def test_the_checker_counts_longest_paths(seed):
    problem, good = planted_local_updates(seed, 6)
    cuts = {problem.by_name[name] for name in good.cuts}
    assert verify_local_updates(problem, good).value == step(problem, cuts)


# -- problems and files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"stages": ()}, "stages"),
        ({"stages": (LINE[0], LINE[0])}, "stage 'a'"),
        ({"stages": (Stage("x", 0, 1),)}, "stage 'x', forward"),
        ({"stages": (Stage("x", 1, 0),)}, "stage 'x', backward"),
        ({"stages": (Stage("x", 1, 1, -1),)}, "stage 'x', head"),
        ({"stages": (Stage("x", 1, 1, 0, -1),)}, "stage 'x', price"),
        ({"stages": (Stage("x", 1, 1, most=0),)}, "stage 'x', most"),
        ({"stages": (Stage("x", 2**60, 1),)}, "stages"),
        ({"micro_batches": 0}, "micro_batches"),
        ({"transfer": -1}, "transfer"),
        ({"budget": -1}, "budget"),
    ],
)
def test_defects(change, where):
    with pytest.raises(InputError) as caught:
        replace(PROBLEM, **change)
    assert where in {finding.where for finding in caught.value.findings}


def test_files_say_the_same_twice(tmp_path):
    kind = kind_of(PROBLEM)
    (native,) = kind.formats()
    path = tmp_path / "line.json"
    reported = replace(PROBLEM, units=Units(time="ms"))
    path.write_bytes(native.write(reported))
    assert read(path)[1] == reported
    assert reported.fingerprint != PROBLEM.fingerprint
    stored = tmp_path / "plan.json"
    good = plan("b", value=16, planner="hand")
    stored.write_bytes(kind.plan_text(good))
    assert kind.read_plan(stored, reported, path) == good


# -- bounds, planners, runs ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100))
def test_bound_optimum_plans(seed):
    problem = short_lines(seed)
    optimum = least(problem)
    assert (optimum is None) == (local_updates_obstacle(problem) is not None)
    assert (optimum is None) == (greedy(problem) is None)
    found = list(CutSearch(problem, None).run(Budget()))
    if optimum is None:
        assert found == []
        return
    assert max(work_bound(problem).value, kept_bound(problem).value) <= optimum
    verdict = verify_local_updates(problem, greedy(problem))
    assert verdict.ok
    assert verdict.value >= optimum
    *better, proof = found
    assert isinstance(proof, Bound)
    assert proof.value == optimum
    verdict = verify_local_updates(problem, better[-1])
    assert (verdict.ok, verdict.value) == (True, optimum)


def test_gradients_that_nobody_pays_to_stop():
    """Two stages in one chunk: the last backward goes back once more."""
    two = LocalUpdatesProblem("two", LINE[1:], 3, 0, 0)
    assert (work_bound(two).value, kept_bound(two).value) == (1 + 9, 1 + 9 + 2)
    assert least(two) == kept_bound(two).value


def test_memory_asks_for_cuts():
    tight = replace(PROBLEM, stages=(replace(LINE[0], most=1), *LINE[1:]))
    assert least_price(tight) == (1, frozenset({0}))
    none = replace(tight, budget=0)
    obstacle = "what 1 stages can hold asks for cuts of 1, the budget is 0"
    assert local_updates_obstacle(none) == obstacle
    assert greedy(none) is None
    outcome = solve(none, Settings(time_limit_s=100))
    assert (outcome.value, outcome.infeasible_reason) == (None, obstacle)


def test_the_model_goes_on_where_labels_end(monkeypatch):
    monkeypatch.setattr("milp_plan.kinds.local_updates.planners.search.LABELS", 1)
    problem = next(
        p
        for p in map(short_lines, range(100))
        if (plan := greedy(p)) is not None
        and 1000 > plan.value > (least(p) or 0) > work_bound(p).value
    )
    outcome = solve(problem, Settings(time_limit_s=120))
    assert (outcome.value, outcome.proved, outcome.defects) == (least(problem), True, ())
    assert outcome.bounds[-1].name == "local_updates"


def test_picture(tmp_path):
    for some in (plan("b"), plan("nowhere")):
        path = write_figure(kind_of(PROBLEM).draw(PROBLEM, some), tmp_path / "plan.png")
        assert path.stat().st_size > 3_000
