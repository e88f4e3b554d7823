"""``sharding`` keeps the contract and proves what enumeration finds, whole and reduced."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from milp_plan.api import Guide, ShardingObjective, ShardingPlan, ShardingProblem
from milp_plan.backends import Limits, Stop
from milp_plan.contract import FormulationContract
from milp_plan.core.sharding import sharding_problem
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.kinds.sharding.coarsen import reduce_sharding
from milp_plan.kinds.sharding.covers import broken_covers, with_covers
from milp_plan.kinds.sharding.reading import read_labelling
from milp_plan.lp import CompiledModel
from tests.support.planted_sharding import planted_sharding
from tests.support.seeds import few
from tests.support.sharding import layered, optimum, random_problem

from .solving import Answer, formulation, solve_here

FORM = formulation("sharding")
LIMITS = Limits(gap=1e-9, gap_abs=1e-9)


class TestSharding(FormulationContract):
    reference = "sharding"
    seeds = range(6)
    least = 6
    formulation = FORM

    def planted(self, seed, objective):
        assert objective is ShardingObjective.TOTAL_COST
        return planted_sharding(seed)

    def verdict(self, problem, plan):
        return verify_sharding(problem, plan)

    def without_memory(self, problem):
        return replace(problem, limit=0)

    def optimum(self, problem):
        return optimum(problem)


def model_of(problem, guide=None, **switches) -> CompiledModel:
    model: CompiledModel = FORM.build(problem, FORM.Options(**switches), guide or Guide())
    return model


def solved(problem, guide=None, **switches) -> tuple[Answer, ShardingPlan | None, float]:
    guide = guide or Guide()
    model = model_of(problem, guide, **switches)
    answer = solve_here(model, LIMITS)
    options = FORM.Options(**switches)
    unit = FORM.scale(problem, options, guide).unit
    if answer.vector is None:
        return answer, None, unit
    return answer, FORM.decode(problem, options, guide, model.name_values(answer.vector)), unit


def proves(problem: ShardingProblem, best: int | None, **switches) -> None:
    answer, plan, unit = solved(problem, **switches)
    if best is None:
        assert answer.stop is Stop.INFEASIBLE
        return
    assert answer.stop is Stop.PROVED
    verdict = verify_sharding(problem, plan)
    assert verdict.violations == ()
    assert verdict.value == best
    assert answer.bound * unit == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("first", few(range(0, 200, 20), 1))
def test_the_model_alone_proves_the_optimum(first):
    feasible = 0
    for seed in range(first, first + 20):
        problem = random_problem(seed, operators=4 if first == 0 else 6)
        best = optimum(problem)
        feasible += best is not None
        proves(problem, best, fewer_rows=seed % 4 < 2)
    assert 5 < feasible < 20


def apart(seed: int) -> ShardingProblem:
    """Draw two operators that go together, in use at different times, beside two that do not."""
    rng = np.random.default_rng(seed)
    tables = [rng.integers(0, 20, (3, 3)).tolist() for _ in range(3)]
    together = [[0 if s == t else None for t in range(3)] for s in range(3)]
    return sharding_problem(
        f"apart-{seed}",
        rng.integers(0, 20, (4, 3)).tolist(),
        usages=rng.integers(1, 9, (4, 3)).tolist(),
        intervals=[(0, 2), (4, 6), (1, 5), (0, 6)],
        edges=dict(zip([(0, 2), (2, 3), (1, 3)], tables, strict=True)) | {(0, 1): together},
        limit=12,
    )


@pytest.mark.parametrize("draw", [lambda seed: layered(seed, 3, 2, 3), apart])
def test_it_proves_the_optimum_of_what_reductions_leave(draw):
    models = parts = 0
    for seed in range(6):
        problem = draw(seed)
        best = optimum(problem)
        reduction = reduce_sharding(problem)
        if not len(reduction.labelling) or reduction.infeasible_reason is not None:
            continue
        models += 1
        parts = max(parts, int(np.diff(reduction.labelling.part_offsets).max()))
        answer, plan, unit = solved(reduction.labelling)
        assert answer.stop is Stop.PROVED
        chosen = reduction.lift(np.array(plan.chosen))
        lifted = ShardingPlan(problem.name, tuple(chosen.tolist()))
        assert verify_sharding(problem, lifted).value == best
        assert answer.objective * unit == pytest.approx(best)
    assert models > 2
    assert parts == (2 if draw is apart else 1), "merged operators use memory in several parts"


@pytest.mark.parametrize("seed", range(4))
def test_costs_over_ten_orders_of_magnitude(seed):
    problem, plan = planted_sharding(seed, stretch=10)
    best = optimum(problem)
    assert max(np.abs(t.cost).max() for t in (problem.strategies, problem.transitions)) > 1e6
    for guide in (Guide(), Guide(cutoff=plan.value)):
        answer, found, unit = solved(problem, guide)
        assert verify_sharding(problem, found).value == best
        assert answer.bound * unit == pytest.approx(best, rel=1e-9)


# -- rows -----------------------------------------------------------------------------------------


def columns_of(model: CompiledModel) -> dict:
    numbers = (model.cost, model.column_lower, model.column_upper, model.integrality)
    rows = zip(model.columns, *(part.tolist() for part in numbers), strict=True)
    return {name: rest for name, *rest in rows}


TWO = sharding_problem(
    "two",
    [[4, 1], [5, None, 1]],
    usages=[[1, 3], [2, 9, 4]],
    intervals=[(0, 2), (1, 3)],
    edges={(0, 1): [[0, 0, None], [8, 0, 2]]},
    limit=6,
)
"""Optimum 9 (the first of both); the cheapest strategies together take 7 bytes."""


def possible(model: CompiledModel, **chosen: float) -> bool:
    """Whether a point with these columns 1 and all others 0 satisfies the model."""
    values = {"x": {}, "z": {}}
    for family, index in model.columns:
        values[family][index] = chosen.get("_".join([family, *map(str, index)]), 0.0)
    return model.violation(model.vector(values))[0] < 1e-9


def test_rows():
    model = model_of(TWO)
    names = {name for name, _ in columns_of(model).items()}
    assert ("x", (1, 1)) not in names, "forbidden strategies have no column"
    assert names & {("z", (0, 0, 2)), ("z", (0, 0, 1))} == set(), "nor have forbidden pairs"
    assert model.families() == {"choose": 2, "left": 2, "right": 2, "memory": 1}
    assert possible(model, x_0_0=1, x_1_0=1, z_0_0_0=1)
    assert not possible(model, x_0_0=1, x_0_1=1, x_1_0=1, z_0_0_0=1, z_0_1_0=1), "choose"
    assert not possible(model), "choose"
    assert not possible(model, x_0_0=1, x_1_0=1, z_0_1_0=1), "left"
    assert not possible(model, x_0_1=1, x_1_0=1, z_0_1_2=1), "right"
    assert not possible(model, x_0_1=1, x_1_2=1, z_0_1_2=1), "memory"
    free = model_of(replace(TWO, limit=7))
    assert possible(free, x_0_1=1, x_1_2=1, z_0_1_2=1)


def test_each_family_is_needed():
    """Without a family, the optimum of the example is another."""
    model, best = model_of(TWO), optimum(TWO)
    assert round(solve_here(model, LIMITS).objective) == best == 9
    families = np.array(model.row_families)
    for family in ("choose", "left", "right", "memory"):
        keep = np.flatnonzero(families != family)
        less = replace(
            model,
            matrix=model.matrix[keep],
            row_lower=model.row_lower[keep],
            row_upper=model.row_upper[keep],
            row_families=families[keep].tolist(),
        )
        assert round(solve_here(less, LIMITS).objective) < best, family


def test_only_instants_that_no_other_implies_have_a_row():
    nested = sharding_problem(
        "nested",
        [[5, 0]] * 3,
        usages=[[0, 3]] * 3,
        intervals=[(0, 10), (2, 8), (4, 6)],
        limit=6,
    )
    assert model_of(nested).families()["memory"] == 1
    assert model_of(nested, fewer_rows=False).families()["memory"] == 5
    for fewer_rows in (True, False):
        proves(nested, 5, fewer_rows=fewer_rows)


def test_bytes_are_counted_in_their_common_divisor():
    large = replace(TWO, limit=6 * 10**9 + 5)
    large.strategies.usage[:] = TWO.strategies.usage * 10**9
    model = model_of(large)
    row = model.row_families.index("memory")
    assert model.matrix[[row]].data.tolist() == [1, 1], "both may take 2 * 10^9 more than least"
    assert model.row_upper[row] == 1, "that fits once: 6 - 1 - 2 are left"


@pytest.mark.parametrize("seed", range(4))
def test_covers_cut_off_what_overflows_and_no_plan(seed):
    problem = replace(layered(seed, 3, 2, 3), limit=layered(seed, 3, 2, 3, slack=0.2).limit)
    labelling, model = read_labelling(problem), model_of(problem)
    choices = [np.array(c) for c in itertools.product(*(range(n) for n in labelling.counts))]
    over = [c for c in choices if (labelling.load(c) > labelling.capacity).any()]
    plans = [c for c in choices if (labelling.load(c) <= labelling.capacity).all()]
    assert over
    assert plans
    for labels in over[:: len(over) // 5]:
        covers = broken_covers(labelling, labels)
        more = with_covers(model, covers)
        assert more.row_families[-1] == "cover"
        rows = more.matrix[model.num_rows :]
        most = more.row_upper[model.num_rows :]
        shares = [
            np.array([float(f == "x" and c[i[0]] == i[1]) for f, i in model.columns])
            for c in [labels, *plans]
        ]
        assert (rows @ shares[0] > most).all()
        assert all((rows @ share <= most).all() for share in shares[1:])


# -- limits, guides, refusals ------------------------------------------------------------------


def test_cutoffs_decide_and_shrink_the_model():
    fewer = 0
    for seed in range(8):
        problem, _ = planted_sharding(seed)
        best = optimum(problem)
        whole, guided = model_of(problem), model_of(problem, Guide(cutoff=best))
        fewer += guided.num_columns < whole.num_columns
        answer, plan, _ = solved(problem, Guide(cutoff=best))
        assert verify_sharding(problem, plan).value == best
        answer, plan, unit = solved(problem, Guide(cutoff=best - 1))
        assert plan is None or answer.bound * unit > best - 1
    assert fewer > 3


def test_an_infeasible_limit_is_proved():
    """Smallest usages fit everywhere, yet masks and the limit together leave nothing."""
    crossed = sharding_problem(
        "crossed",
        [[0, 0], [0, 0]],
        usages=[[1, 3], [3, 1]],
        edges={(0, 1): [[0, None], [None, 0]]},
        limit=3,
    )
    proves(crossed, None)
    proves(replace(crossed, limit=4), 0)


def test_what_it_refuses():
    reason = FORM.unsupported(object(), FORM.Options())
    assert "not a sharding problem" in reason
    huge = sharding_problem("huge", [[2**60]] * 3)
    assert "2^61" in FORM.unsupported(huge, FORM.Options())
