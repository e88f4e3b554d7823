"""The local polytope of a sharding problem, solved by HiGHS in this process, one thread.

Columns: one per strategy, one per pair of strategies on an edge. Rows: one strategy per operator;
the pairs of an edge sum to the strategies of either end. With integral strategies this is the
model of Alpa (OSDI 2022) with equalities; without, its linear relaxation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from milp_plan.core.repeated import RepeatedProblem

GOAL = 1e4
"""Cost of the reference choice after scaling, so that tolerances mean the same everywhere."""


@dataclass(frozen=True)
class Solved:
    """What HiGHS found.

    Parameters
    ----------
    value
        Optimal value in the problem's unit, as a float; ``None`` if it did not finish.
    chosen
        Strategies of the largest share per operator.
    integral
        Whether every share is 0 or 1.
    columns
        Of the model.
    build_s, solve_s
        CPU seconds of this process.
    """

    value: float | None
    chosen: tuple[int, ...] | None
    integral: bool
    columns: int
    build_s: float
    solve_s: float


def solve(problem: RepeatedProblem, *, integral: bool, limit_s: float = 60.0) -> Solved:
    """Solve the model (``integral``) or its relaxation; for problems without masks."""
    start = time.process_time()
    cost, rows, right, strategies = model(problem)
    reference = problem.cost([0] * len(problem.operators))
    if reference is None:
        raise ValueError("the problem has masks")
    scale = GOAL / max(1, abs(reference))
    solver = _passed(cost * scale, rows, right, strategies if integral else 0, limit_s)
    built = time.process_time()
    solver.run()
    solved = time.process_time()
    times = (built - start, solved - built)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return Solved(None, None, False, len(cost), *times)
    shares = np.array(solver.getSolution().col_value[:strategies])
    ends = np.cumsum(problem.sizes)[:-1]
    chosen = tuple(int(part.argmax()) for part in np.split(shares, ends))
    whole = bool(np.minimum(shares, 1.0 - shares).max() < 1e-6)
    value = solver.getInfo().objective_function_value / scale
    return Solved(value, chosen, whole, len(cost), *times)


def model(
    problem: RepeatedProblem,
) -> tuple[np.ndarray, sparse.csr_array, np.ndarray, int]:
    """Costs, rows, right-hand sides, and the number of columns of strategies."""
    sizes = np.array(problem.sizes)
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    costs = [problem.own[kind].cost for kind in problem.kinds]
    column, row = int(firsts[-1]), len(sizes)
    entries = [(np.repeat(np.arange(row), sizes), np.arange(column), np.ones(column))]
    for (first, second), link in zip(problem.ends, problem.links, strict=True):
        table = problem.pairs[link].cost
        tall, wide = table.shape
        pairs = column + np.arange(table.size)
        entries.append((row + np.repeat(np.arange(tall), wide), pairs, np.ones(table.size)))
        entries.append((row + tall + np.tile(np.arange(wide), tall), pairs, np.ones(table.size)))
        own = np.concatenate([firsts[first] + np.arange(tall), firsts[second] + np.arange(wide)])
        entries.append((row + np.arange(tall + wide), own, -np.ones(tall + wide)))
        costs.append(table.ravel())
        column, row = column + table.size, row + tall + wide
    at, columns, factors = (np.concatenate(part) for part in zip(*entries, strict=True))
    rows = sparse.coo_array((factors, (at, columns)), shape=(row, column)).tocsr()
    right = np.zeros(row)
    right[: len(sizes)] = 1.0
    return np.concatenate(costs).astype(np.float64), rows, right, int(firsts[-1])


def _passed(
    cost: np.ndarray, rows: sparse.csr_array, right: np.ndarray, integers: int, limit_s: float
) -> highspy.Highs:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = rows.shape
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = np.zeros(len(cost)), np.ones(len(cost))
    lp.row_lower_ = lp.row_upper_ = right
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = rows.indptr, rows.indices
    lp.a_matrix_.value_ = rows.data
    if integers:
        kinds = [highspy.HighsVarType.kInteger] * integers
        lp.integrality_ = kinds + [highspy.HighsVarType.kContinuous] * (len(cost) - integers)
    solver = highspy.Highs()
    options = {"output_flag": False, "threads": 1, "time_limit": limit_s, "mip_rel_gap": 1e-9}
    for name, choice in {**options, "mip_detect_symmetry": False}.items():
        solver.setOptionValue(name, choice)
    solver.passModel(lp)
    return solver
