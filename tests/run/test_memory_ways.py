"""Problems with recomputable operators and hosts through the run."""

import pytest

from milp_plan.check import verify
from milp_plan.coarsen import coarsen
from milp_plan.core import InputError, MemoryLaw, UnsupportedProblemError
from milp_plan.io.native import from_json, to_json
from milp_plan.io.plan_file import plan_from_json, plan_to_json
from milp_plan.run import Settings, solve
from tests.support.ways import planted_ways, tiny_ways

QUICK = Settings(time_limit_s=20.0, seed=1)


def test_a_problem_is_planned_and_checked():
    problem = planted_ways(3).problem
    found = solve(problem, QUICK)
    assert found.plan is not None
    assert verify(problem, found.plan).ok
    assert not found.defects


def test_a_formulation_of_single_runs_refuses():
    with pytest.raises(UnsupportedProblemError, match="no runs again, no hosts"):
        solve(tiny_ways(0), Settings(formulation="operator_schedule", time_limit_s=20.0))


def test_nothing_is_made_smaller():
    problem = tiny_ways(0)
    assert coarsen(problem, 1).problem is problem


@pytest.mark.parametrize("seed", range(10))
def test_files_keep_everything(seed):
    case = planted_ways(seed)
    assert from_json(to_json(case.problem)) == case.problem
    assert from_json(to_json(case.problem)).fingerprint == case.problem.fingerprint
    assert plan_from_json(plan_to_json(case.plan)) == case.plan


def test_hosts_and_recomputable_operators_change_a_fingerprint():
    problem = tiny_ways(0)
    plain = problem.without_memory_ways
    assert plain.fingerprint != problem.fingerprint
    assert plain.parent == problem.fingerprint
    again = problem.variant(graph=plain.graph)
    assert len({problem.fingerprint, again.fingerprint, plain.fingerprint}) == 3


def test_the_static_law_has_no_instants():
    with pytest.raises(InputError, match="instant: a copy is made again"):
        tiny_ways(0).variant(memory_law=MemoryLaw.STATIC)
