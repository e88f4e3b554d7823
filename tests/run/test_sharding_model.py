"""Sharding problems by a formulation: starts, limits, proofs, and answers that are disputed."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from milp_plan.api import Guide, ShardingPlan, ShardingProblem
from milp_plan.backends import Limits, SolverReport, Stop
from milp_plan.core import InputError, UnsupportedProblemError
from milp_plan.core.budget import Budget
from milp_plan.core.sharding import sharding_problem
from milp_plan.kinds.sharding import labelling_strategy as labelling
from milp_plan.kinds.sharding import strategy
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.kinds.sharding.coarsen import reduce_sharding
from milp_plan.kinds.sharding.coarsen.projection import projected
from milp_plan.models.registry import get, shipped_folders
from milp_plan.run import Settings, solve
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.run.model_answer import ModelAnswer
from tests.models.solving import solve_here
from tests.support.sharding import layered, optimum, random_problem

FOUND = get("sharding")
SOLVER = FormulationSolver(FOUND, make_options(FOUND, {}))
ALONE = Settings(time_limit_s=600.0, node_limit=10**6, formulation="sharding")
"""Without the search that looks for a start."""


def in_this_process(_name):
    def solve(model, limits, start=None, *, on_progress=None):
        answer = solve_here(model, limits, start)
        return SolverReport(
            answer.stop,
            answer.vector,
            answer.objective,
            answer.bound,
            start_accepted=answer.start_accepted,
        )

    return solve


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelling, "backend", in_this_process)


def some_plan(problem: ShardingProblem, worse_than: int) -> ShardingPlan:
    """Find a valid plan that costs more than this."""
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        chosen = tuple(int(rng.integers(count)) for count in problem.strategies.counts)
        plan = ShardingPlan(problem.name, chosen)
        verdict = verify_sharding(problem, plan)
        if verdict.ok and verdict.value > worse_than:
            return plan
    raise AssertionError("no such plan")


def test_the_model_alone_proves_the_optimum_of_the_whole_problem():
    for seed in range(3):
        problem = layered(seed, 3, 2, 3)
        outcome = solve(problem, ALONE)
        best = optimum(problem)
        assert (outcome.value, outcome.bound, outcome.stop) == (best, best, Stop.PROVED)
        assert outcome.proved
        assert outcome.record["formulation"]["name"] == outcome.record["bound_name"] == "sharding"
        assert outcome.record["model"]["columns"] > 0


def test_a_search_finds_a_start_that_the_solver_takes():
    problem = layered(1, 6, 3, 3)
    outcome = solve(problem, Settings(time_limit_s=60.0, formulation="sharding"))
    assert outcome.verdict.ok
    model = outcome.record["model"]
    assert outcome.proved
    assert model is None or model["start_accepted"]


def test_it_starts_from_a_plan():
    problem = layered(0, 4, 3, 3)
    start = some_plan(problem, 0)
    outcome = solve(problem, replace(ALONE, start=start))
    assert outcome.proved
    assert outcome.value < verify_sharding(problem, start).value
    assert outcome.record["model"]["start_accepted"]
    again = solve(problem, replace(ALONE, start=outcome.plan))
    assert (again.value, again.proved, again.disputed) == (outcome.value, True, False)


def test_a_start_that_reductions_have_lost_is_not_lost(monkeypatch):
    """Nothing comes down to the reduced problem, the solver finds nothing, and the start stays."""

    def nothing(_name):
        return lambda *_, **__: SolverReport(Stop.TIME_LIMIT)

    def forbidden(reduction, _labels):
        return np.zeros(len(reduction.labelling), dtype=np.int64)

    monkeypatch.setattr(strategy, "projected", forbidden)
    monkeypatch.setattr(labelling, "backend", nothing)
    problem = four_colours(4)
    start = some_plan(problem, 0)
    outcome = solve(problem, replace(ALONE, start=start))
    assert outcome.plan.chosen == start.chosen
    assert outcome.value == verify_sharding(problem, start).value
    assert (outcome.verdict.ok, outcome.stop) == (True, Stop.NODE_LIMIT)
    assert outcome.record["planner"] == "start"


def test_ctrl_c_keeps_the_best_plan(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(labelling.validated, "compile_source", interrupt)
    problem = layered(0, 4, 3, 3)
    start = some_plan(problem, 0)
    outcome = solve(problem, replace(ALONE, start=start))
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.value <= verify_sharding(problem, start).value


def test_a_start_must_be_a_plan():
    problem = layered(0, 4, 3, 3)
    broken = ShardingPlan(problem.name, (9,) * len(problem.operators))
    with pytest.raises(InputError, match="start plan, assignment"):
        solve(problem, replace(ALONE, start=broken))


@pytest.mark.untraced
@pytest.mark.parametrize("draw", [lambda seed: layered(seed, 3, 3, 3), random_problem])
def test_choices_come_down_the_way_they_went_up(draw):
    compared = 0
    for seed in range(12):
        problem = draw(seed)
        reduction = reduce_sharding(problem)
        if reduction.infeasible_reason is not None:
            continue
        left, rng = reduction.labelling, np.random.default_rng(seed)
        for _ in range(4):
            labels = np.array([rng.integers(count) for count in left.counts], dtype=np.int64)
            lifted = reduction.lift(labels)
            lower = projected(reduction, lifted)
            assert left.value(lower) == left.value(labels)
            assert (left.load(lower) == left.load(labels)).all()
            compared += len(left) > 0
        strange = np.array([rng.integers(count) for count in problem.strategies.counts])
        lower = projected(reduction, strange)
        assert ((lower >= 0) & (lower < left.counts)).all()
    assert compared or draw is random_problem


def four_colours(count: int) -> ShardingProblem:
    """Four operators, no two of which may take the same of three strategies, or of four."""
    different = [[None if s == t else s + t for t in range(count)] for s in range(count)]
    return sharding_problem(
        "colours",
        [list(range(count))] * 4,
        usages=[list(np.roll(range(count), place)) for place in range(4)],
        edges=dict.fromkeys(itertools.combinations(range(4), 2), different),
        limit=9 if count == 4 else 5,
    )


def test_what_cannot_be_is_proved_by_the_model():
    three, four = four_colours(3), four_colours(4)
    assert reduce_sharding(three).infeasible_reason is None, "reductions do not see it"
    outcome = solve(three, ALONE)
    assert (outcome.stop, outcome.plan) == (Stop.INFEASIBLE, None)
    assert outcome.infeasible_reason == "sharding has no solution: proved by the solver"
    assert solve(four, ALONE).value == optimum(four)


def dense(count: int, strategies: int) -> ShardingProblem:
    """Every two operators have a table: the relaxation at the first node is far from whole."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(count), 2))
    tables = rng.integers(0, 1000, (len(pairs), strategies, strategies)).tolist()
    return sharding_problem(
        "dense",
        [[0] * strategies] * count,
        usages=rng.integers(1, 100, (count, strategies)).tolist(),
        edges=dict(zip(pairs, tables, strict=True)),
        limit=45 * count,
    )


def test_a_limit_that_is_reached_is_not_infeasible():
    problem = layered(0, 12)
    left = reduce_sharding(problem).labelling
    answer = labelling.solve_labelling(left, SOLVER, Guide(), Limits(time_s=0.0), Budget())
    assert answer.report.stop is Stop.TIME_LIMIT
    assert (answer.plan, answer.bound, answer.disputed) == (None, None, "")
    outcome = solve(dense(10, 4), replace(ALONE, node_limit=1))
    assert outcome.stop is Stop.NODE_LIMIT, "more than one node, or the limit is not handed over"
    assert outcome.infeasible_reason is None
    assert not outcome.disputed


# -- bytes ------------------------------------------------------------------------------------


def fine(seed: int) -> ShardingProblem:
    """Five operators whose usages, up to 10^12 bytes, share no divisor; no limit."""
    rng = np.random.default_rng(seed)
    tables = rng.integers(0, 10**6, (4, 3, 3)).tolist()
    return sharding_problem(
        f"fine-{seed}",
        rng.integers(0, 10**6, (5, 3)).tolist(),
        usages=rng.integers(10**9, 10**12, (5, 3)).tolist(),
        intervals=[(0, 3), (1, 4), (2, 5), (0, 5), (2, 3)],
        edges=dict(zip([(0, 1), (1, 2), (2, 3), (3, 4)], tables, strict=True)),
    )


@pytest.mark.parametrize("seed", [0, 1, 41])
def test_a_byte_decides(seed):
    """A plan fills memory, or lacks some bytes that floats cannot tell.

    41: with exact capacities, unscaled or scaled, HiGHS 1.15.1 proves 4,229,643 at tolerance 1e-9.
    """

    def ask(problem: ShardingProblem) -> ModelAnswer:
        return labelling.solve_labelling(problem, SOLVER, Guide(), Limits(gap=1e-9), Budget())

    problem, values = fine(seed), []
    chosen = ask(problem).plan.chosen
    full = verify_sharding(problem, ShardingPlan(problem.name, chosen)).components["peak_usage"]
    for lacking in (0, 1, 100, 1000):
        limited = replace(problem, limit=full - lacking)
        answer = ask(limited)
        assert (answer.value, answer.disputed) == (optimum(limited), "")
        assert answer.report.stop is Stop.PROVED
        assert answer.bound <= answer.value
        values.append(answer.value)
    assert values[0] < values[1] == values[2] == values[3]


# -- answers that are disputed -----------------------------------------------------------------


def altered(folder: Path, old: str, new: str) -> str:
    """Write a formulation that differs from the shipped one in a line, and return its path."""
    copy = folder / "altered"
    shutil.copytree(shipped_folders()[0] / "sharding", copy)
    (module,) = (path for path in copy.glob("*.py") if path.read_text().count(old) == 1)
    module.write_text(module.read_text().replace(old, new))
    return str(copy)


def crowded() -> ShardingProblem:
    """Five operators, all of which resist reductions; what is cheap needs much memory."""
    rng = np.random.default_rng(0)
    tables = rng.integers(0, 30, (10, 3, 3))
    return sharding_problem(
        "crowded",
        [[0, 20, 40]] * 5,
        usages=[[9, 4, 1]] * 5,
        edges=dict(zip(itertools.combinations(range(5), 2), tables.tolist(), strict=True)),
        limit=20,
    )


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("memory = self.memory()", "memory: list[MemoryRow] = []", "more memory than there is"),
        ("self._edge_rows(rows, family, side)", "pass", "the solver claims"),
        (
            "self.scale = Scale(self.polytope.unit)",
            "self.scale = Scale(self.polytope.unit * 1.01)",
            "below the solver's bound",
        ),
    ],
)
def test_what_checker_and_solver_do_not_agree_on_is_disputed(tmp_path, old, new, because):
    wrong = altered(tmp_path, old, new)
    outcome = solve(crowded(), replace(ALONE, formulation=wrong))
    assert outcome.disputed
    assert outcome.record["verdict"] == "DISPUTED"
    assert because in outcome.record["disputed_because"]
    assert not outcome.proved


def test_a_formulation_may_refuse_a_start_and_return_no_plan(tmp_path):
    """Both ended the run with an exception."""
    refusing = (
        "class Refusing(Sharding):\n"
        "    def encode(self, *given):\n        raise FormulationError('no room for it')\n\n"
        "    def decode(self, *given):\n        return None\n\n\n"
        "from milp_plan.core import FormulationError\n\nFORMULATION = Refusing(_Builder)"
    )
    path = altered(tmp_path, "FORMULATION = Sharding(_Builder)", refusing)
    best = solve(crowded(), ALONE)
    outcome = solve(crowded(), replace(ALONE, formulation=path, start=best.plan))
    assert (outcome.defects, outcome.disputed_reason) == ((), "")
    assert outcome.record["startless"] == "no room for it"
    assert outcome.value == best.value


def test_a_restriction_proves_nothing(tmp_path):
    """Only the first strategy of the first operator: a plan, and no proof that it is the best."""
    restricted = altered(
        tmp_path,
        "column_upper=np.ones(len(cost)),",
        "column_upper=np.where(np.isin(np.arange(len(cost)), (1, 2)), 0.0, 1.0),",
    )
    settings = replace(ALONE, formulation=restricted)
    assert solve(crowded(), settings).proved, "it does not say that it restricts"
    start, before = Path(restricted) / "__init__.py", "    def unsupported(self"
    assert start.read_text().count(before) == 1
    says = "    def restricts(self, options):\n        return True\n\n"
    start.write_text(start.read_text().replace(before, says + before))
    outcome = solve(crowded(), settings)
    assert outcome.plan is not None
    assert not outcome.proved
    assert outcome.stop is Stop.NODE_LIMIT


def test_no_plan_as_good_as_a_known_one_is_disputed(tmp_path):
    problem = layered(0, 4, 3, 3)
    best = solve(problem, ALONE)
    wrong = altered(
        tmp_path,
        "self.polytope = Polytope(labelling, guide.cutoff)",
        "self.polytope = Polytope(labelling, guide.cutoff and guide.cutoff // 2)",
    )
    outcome = solve(problem, replace(ALONE, formulation=wrong, start=best.plan))
    assert outcome.disputed
    stated = outcome.record["disputed_because"]
    assert stated.startswith("the formulation's claim is refuted by ")
    assert "no solution up to the cutoff" in stated


def test_formulations_of_other_problems_are_refused():
    problem = layered(0, 3, 2, 2)
    with pytest.raises(UnsupportedProblemError, match="it is for a PlanningProblem"):
        solve(problem, replace(ALONE, formulation="resource_load"))
    with pytest.raises(InputError, match="no such option"):
        solve(problem, replace(ALONE, options={"speed": 3}))
