"""Problems with recomputable operators and hosts through the run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.check import verify
from milp_plan.core import InputError, MemoryLaw, UnsupportedProblemError
from milp_plan.core.budget import Budget
from milp_plan.io.native import from_json, to_json
from milp_plan.io.plan_file import plan_from_json, plan_to_json
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.coarsen.steps import coarsen
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing
from milp_plan.kinds.schedule.strategies import memory
from milp_plan.kinds.schedule.strategies.memory import does_without, first_runs
from milp_plan.run import Settings, solve
from milp_plan.run.change import host
from milp_plan.run.kinds import read
from tests.support.memory_saving import planted_memory_saving, tiny_ways
from tests.support.memory_saving_damage import unlimited

from .cases import WEAK_BOUND

INSTANCES = Path(__file__).parents[2] / "instances"

QUICK = Settings(node_limit=1, seed=1)


def test_a_problem_is_planned_and_checked():
    problem = unlimited(planted_memory_saving(3).problem)
    found = solve(problem, QUICK)
    assert found.plan is not None
    assert verify(problem, found.plan).ok
    assert not found.defects


def test_a_formulation_of_single_runs_refuses():
    with pytest.raises(UnsupportedProblemError, match="no runs again, no hosts"):
        solve(tiny_ways(0), Settings(formulation="operator_schedule", time_limit_s=20.0))


def test_what_may_run_again_merges_with_nothing_else():
    problem = tiny_ways(0)
    coarsening = coarsen(problem, 1)
    again = {operator.name for operator in problem.graph.operators if operator.recomputable}
    for operator in coarsening.problem.graph.operators:
        members = set(coarsening.members[operator.name])
        assert members <= again if operator.recomputable else members.isdisjoint(again)
    assert len(coarsening.problem.graph.operators) < len(problem.graph.operators)


@pytest.mark.parametrize("seed", range(10))
def test_files_keep_everything(seed):
    case = planted_memory_saving(seed)
    assert from_json(to_json(case.problem)) == case.problem
    assert from_json(to_json(case.problem)).fingerprint == case.problem.fingerprint
    assert plan_from_json(plan_to_json(case.plan)) == case.plan


def test_hosts_and_recomputable_operators_change_a_fingerprint():
    problem = tiny_ways(0)
    plain = problem.without_memory_saving
    assert plain.fingerprint != problem.fingerprint
    assert plain.parent == problem.fingerprint
    again = problem.variant(graph=plain.graph)
    assert len({problem.fingerprint, again.fingerprint, plain.fingerprint}) == 3


def test_the_static_law_has_no_instants():
    with pytest.raises(InputError, match="instant: a copy is made again"):
        tiny_ways(0).variant(memory_law=MemoryLaw.STATIC)


def test_the_variant_of_a_file_lets_forward_operators_run_again_and_has_a_host():
    changes = {"recompute": True, "host": host("2GiB@25GB/s")}
    _, problem = read(INSTANCES / "gpt-tiny-training-2xA100.json", changes)
    _, parent = read(INSTANCES / "gpt-tiny-training-2xA100.json", {})
    assert problem.parent == parent.fingerprint
    again = {op.name for op in problem.graph.operators if op.recomputable}
    assert again == {op.name for op in parent.graph.operators if op.kind == "forward"}
    assert problem.cluster.hosts == {"host"}
    assert problem.cluster.device("host").memory_bytes == 2 * 2**30
    for name in parent.cluster.device_names:
        for ends in ((name, "host"), ("host", name)):
            assert problem.cluster.channel(*ends).bandwidth_bytes_per_s == 25 * 10**9


@pytest.mark.parametrize("text", ["512GiB", "a@b", "1GiB@0GB/s", "@25GB/s"])
def test_a_host_is_memory_and_bandwidth(text):
    with pytest.raises(ValueError, match="write for example 512GiB@25GB/s"):
        host(text)


def with_memory(problem, size):
    """The same problem with so many bytes on each device; ``None``: no limit."""
    sizes = dict.fromkeys(problem.cluster.device_names, size)
    return problem.variant(cluster=problem.cluster.with_memory(sizes))


@pytest.mark.parametrize("seed", range(20))
def test_of_each_operator_the_run_that_starts_first_is_kept(seed):
    plan = planted_memory_saving(seed).plan
    first = first_runs(plan)
    kept = {run.operator: run.start_ticks for run in first.runs}
    assert len(kept) == len(first.runs)
    assert set(kept) == {run.operator for run in plan.runs}
    assert all(kept[run.operator] <= run.start_ticks for run in plan.runs)


def test_little_time_is_lost_where_work_can_go_where_memory_is_left(monkeypatch):
    monkeypatch.setattr(catalogue, "all_bounds", lambda *_: iter([WEAK_BOUND]))
    problem = read(INSTANCES / "unet-training-4xA100.json", {})[1]
    unlimited = with_memory(problem, None)
    annealing = ParallelAnnealing(unlimited, seed=1)
    annealing.construct(Budget())
    plans = []
    annealing.run(Budget(), 500, plans.append)
    free = verify(unlimited, plans[-1])
    peak = free.components["peak_memory"]
    tight = with_memory(problem, peak * 7 // 10).with_recomputation()
    found = solve(tight, QUICK)
    assert not verify(tight, plans[-1]).ok
    assert verify(tight, found.plan).ok
    assert found.value <= 1.02 * free.value


def test_a_plan_does_without_where_it_is_one_of_the_problem_without_ways():
    stated = set()
    for seed in range(40):
        case = planted_memory_saving(seed)
        plain = case.problem.without_memory_saving
        moved = replace(case.plan, fingerprint=plain.fingerprint, parent=None, value=None)
        assert does_without(case.problem, case.plan) == verify(plain, moved).ok
        stated.add(verify(plain, moved).ok)
    assert stated == {True, False}


@pytest.mark.parametrize("known", [True, False])
def test_that_no_plan_does_without_is_proved_only_where_none_is_known(known, monkeypatch):
    changes = {"recompute": True, "host": host("2GiB@25GB/s")}
    _, problem = read(INSTANCES / "gpt-tiny-training-2xA100.json", changes)
    start = solve(problem.without_memory_saving, QUICK).plan
    asked = []
    monkeypatch.setattr(memory, "infeasibility", lambda *_: asked.append(1))
    monkeypatch.setattr(memory, "does_without", lambda *_: known)
    assert solve(problem, replace(QUICK, start=start)).plan is not None
    assert asked == ([] if known else [1])


UNCOMPILED = """
import sys
from milp_plan.run import Settings, compiling, loop_parts, solve
from milp_plan.run.kinds import read

def wait(*_):
    raise KeyboardInterrupt

loop_parts.kept = lambda _loop: False
compiling.Compiling._work = lambda _: None
compiling.Compiling.wait = wait
_, problem = read("instances/unet-training-4xA100.json", {"recompute": True})
outcome = solve(problem, Settings(time_limit_s=60))
assert outcome.plan is not None
assert "construct" in outcome.record["phases"]
assert "numba" not in sys.modules, "a loop was compiled in the run, past its time limit"
"""


def test_no_loop_is_compiled_in_a_run_while_other_processes_compile_it():
    """A run of ten seconds with recomputation took a minute on a new installation."""
    subprocess.run([sys.executable, "-c", UNCOMPILED], check=True, cwd=Path(__file__).parents[2])
