"""The local polytope of a sharding problem, solved by HiGHS in this process, one thread.

The model is that of ``formulations/sharding``, without reductions and without memory: with
integral strategies the model of Alpa (OSDI 2022) with equalities; without, its linear relaxation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import highspy
import numpy as np

from formulations.sharding.polytope import Polytope
from milp_plan.elimination.repeated import RepeatedProblem
from milp_plan.kinds.sharding.labelling import Labelling
from milp_plan.lp import CompiledModel

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
    whole, strategies = model(problem)
    reference = problem.cost([0] * len(problem.operators))
    if reference is None:
        raise ValueError("the problem has masks")
    scale = GOAL / max(1, abs(reference))
    scaled = replace(whole, cost=whole.cost * scale)
    solver = _passed(scaled if integral else scaled.relaxed(), limit_s)
    built = time.process_time()
    solver.run()
    solved = time.process_time()
    times = (built - start, solved - built)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return Solved(None, None, False, whole.num_columns, *times)
    shares = np.array(solver.getSolution().col_value[:strategies])
    ends = np.cumsum(problem.sizes)[:-1]
    chosen = tuple(int(part.argmax()) for part in np.split(shares, ends))
    fractional = float(np.minimum(shares, 1.0 - shares).max())
    value = solver.getInfo().objective_function_value / scale
    return Solved(value, chosen, fractional < 1e-6, whole.num_columns, *times)


def model(problem: RepeatedProblem) -> tuple[CompiledModel, int]:
    """Rows and columns of the shipped formulation, and the number of columns of strategies.

    Costs are those of the tables, in the problem's unit, and no memory is counted.
    """
    whole = problem.problem()
    s, t = whole.strategies, whole.transitions
    none = np.zeros(len(s) + 1, dtype=np.int64)
    labelling = Labelling(
        offsets=s.offsets,
        cost=s.cost,
        ends=t.ends,
        table_offsets=t.offsets,
        table=t.cost,
        part_offsets=none,
        parts=none[:0].reshape(0, 2),
        use_offsets=none,
        usage=none[:0],
        capacity=none[:0],
    )
    cost = np.concatenate([s.cost, t.cost]).astype(np.float64)
    return replace(Polytope(labelling).compiled(), cost=cost, offset=0.0), len(s.cost)


def _passed(model: CompiledModel, limit_s: float) -> highspy.Highs:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = model.num_rows, model.num_columns
    lp.col_cost_ = model.cost
    lp.col_lower_, lp.col_upper_ = model.column_lower, model.column_upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = model.matrix.indptr, model.matrix.indices
    lp.a_matrix_.value_ = model.matrix.data
    if model.integrality.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[bit] for bit in model.integrality.tolist()]
    solver = highspy.Highs()
    options = {"output_flag": False, "threads": 1, "time_limit": limit_s, "mip_rel_gap": 1e-9}
    for name, choice in {**options, "mip_detect_symmetry": False}.items():
        solver.setOptionValue(name, choice)
    solver.passModel(lp)
    return solver
