"""The process that runs HiGHS: reads a job from standard input and streams its results.

Messages are pickled tuples on standard output: ``("started", handover_s, start_accepted)``,
``("incumbent", seconds, objective, vector)``, ``("progress", seconds, incumbent, bound, nodes)``,
``("log", text)`` where that was asked for, and last ``("done", {...})``. What HiGHS itself prints
goes to standard error.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import now
from milp_plan.lp import CompiledModel

from .outcome import Limits, Stop

PROGRESS_EVERY_S = 0.5

PARENT_EVERY_S = 1.0

INTEGRALITY_TOLERANCE = 1e-9
"""Tighter than the solver's own 1e-6: an order bit that is 1e-6 off frees a big-M row by 1e-6 of
the horizon, which is more than the ticks some models tell apart."""

PARALLEL_ROWS_AND_COLUMNS = 1 << 13
"""Bit of the presolve rule in HiGHS's option ``presolve_rule_off``."""

MOST_WITHOUT_PRESOLVE = 500
"""Maximum columns of a careful solve without presolve; larger models need presolve."""


@dataclass(frozen=True)
class Job:
    """One solve. ``start`` is a complete vector or ``None``; ``log``: what HiGHS prints is sent."""

    model: CompiledModel
    limits: Limits
    start: NDArray[np.float64] | None = None
    options: dict[str, bool | int | float | str] | None = None
    log: bool = False


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) and abs(number) < 1e29 else None


class _Stream:
    """Callbacks of one solve, which send every incumbent at once."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self.began = now()
        self.last_progress = -math.inf
        self.interrupted = False
        self.best = math.inf

    def send(self, *message: Any) -> None:
        pickle.dump(message, self.out, protocol=pickle.HIGHEST_PROTOCOL)
        self.out.flush()

    def elapsed(self) -> float:
        return now() - self.began

    def callback(self, kind: Any, message: str, data: Any, answer: Any, _user: Any) -> None:
        from highspy import cb

        types = cb.HighsCallbackType
        if kind == types.kCallbackLogging:
            self.send("log", message)
            return
        if kind == types.kCallbackMipImprovingSolution:
            if data.objective_function_value < self.best:
                self.best = data.objective_function_value
                vector = np.array(data.mip_solution, dtype=float)
                self.send("incumbent", self.elapsed(), float(self.best), vector)
        elif kind == types.kCallbackMipLogging:
            if self.elapsed() - self.last_progress >= PROGRESS_EVERY_S:
                self.last_progress = self.elapsed()
                primal, dual = _finite(data.mip_primal_bound), _finite(data.mip_dual_bound)
                self.send("progress", self.elapsed(), primal, dual, int(data.mip_node_count))
        elif self.interrupted and answer is not None:
            answer.user_interrupt = True


def _pass_model(highs: Any, model: CompiledModel) -> None:
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.num_columns, model.num_rows
    lp.col_cost_, lp.offset_ = model.cost, model.offset
    lp.col_lower_, lp.col_upper_ = model.column_lower, model.column_upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = model.num_columns, model.num_rows
    lp.a_matrix_.start_ = model.matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = model.matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = model.matrix.data
    if model.integrality.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[bit] for bit in model.integrality.tolist()]
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise ValueError("HiGHS refused the model")


def _configure(highs: Any, job: Job) -> None:
    limits = job.limits
    settings: dict[str, bool | int | float | str] = {
        "output_flag": True,  # progress callbacks are silent without it
        "log_to_console": False,
        "time_limit": float(limits.time_s),
        "mip_rel_gap": float(limits.gap),
        "mip_abs_gap": float(limits.gap_abs),
        "mip_feasibility_tolerance": INTEGRALITY_TOLERANCE,
        "random_seed": int(limits.seed),
        "threads": int(limits.threads),
        "parallel": "on" if limits.threads > 1 else "off",
        # orbits of HiGHS 1.15.1 cut off optima of models with large symmetry groups, and it then
        # proves too high a value; the tests hold such a model
        "mip_detect_symmetry": False,
        # merging nearly parallel rows and columns, HiGHS 1.15.1 calls models infeasible that hold a
        # point, or proves too high a value; the tests hold such a model
        "presolve_rule_off": PARALLEL_ROWS_AND_COLUMNS,
    }
    if limits.careful and job.model.num_columns <= MOST_WITHOUT_PRESOLVE:
        settings["presolve"] = "off"
    if limits.nodes is not None:
        settings["mip_max_nodes"] = int(limits.nodes)
    for name, setting in {**settings, **(job.options or {})}.items():
        highs.setOptionValue(name, setting)


def _pass_start(highs: Any, job: Job) -> bool | None:
    if job.start is None:
        return None
    import highspy

    amount, _ = job.model.violation(job.start)
    if amount > 1e-6:
        return False
    solution = highspy.HighsSolution()
    solution.col_value = job.start.tolist()
    return bool(highs.setSolution(solution) != highspy.HighsStatus.kError)


def _stop(highs: Any, stream: _Stream, model: CompiledModel) -> Stop:
    import highspy

    status = highs.getModelStatus()
    kinds = highspy.HighsModelStatus
    if status == kinds.kOptimal:
        return Stop.PROVED
    if status == kinds.kModelEmpty:  # no columns: the rows hold or they do not
        holds = (model.row_lower <= 0).all() and (model.row_upper >= 0).all()
        return Stop.PROVED if holds else Stop.INFEASIBLE
    if status == kinds.kInfeasible:
        return Stop.INFEASIBLE
    if status == kinds.kUnboundedOrInfeasible and not model.falling:
        return Stop.INFEASIBLE
    if status == kinds.kTimeLimit:
        return Stop.TIME_LIMIT
    if status == kinds.kInterrupt or stream.interrupted:
        return Stop.INTERRUPTED
    if status in {kinds.kSolutionLimit, kinds.kIterationLimit}:
        return Stop.NODE_LIMIT
    if status == kinds.kMemoryLimit:
        return Stop.MEMORY_LIMIT
    return Stop.ERROR


def _row_duals(highs: Any, integer: bool) -> NDArray[np.float64] | None:
    """Return multipliers of the rows of a linear program, even if they are not optimal."""
    solution = highs.getSolution()
    if integer or not solution.dual_valid:
        return None
    return np.array(solution.row_dual, dtype=float)


def solve(job: Job, stream: _Stream) -> None:
    """Run one job and send its answer."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    began = now()
    _pass_model(highs, job.model)
    handover = now() - began
    _configure(highs, job)
    accepted = _pass_start(highs, job)
    if accepted and job.start is not None:
        # The start is an incumbent from the first moment, whatever happens to this process.
        started = float(job.model.cost @ job.start + job.model.offset)
        stream.send("incumbent", stream.elapsed(), started, job.start)
    stream.send("started", handover, accepted)
    highs.setCallback(stream.callback, None)
    types = highspy.cb.HighsCallbackType
    for kind in (
        types.kCallbackMipImprovingSolution,
        types.kCallbackMipLogging,
        types.kCallbackMipInterrupt,
        types.kCallbackSimplexInterrupt,
        types.kCallbackIpmInterrupt,
    ):
        highs.startCallback(kind)
    if job.log:
        highs.startCallback(types.kCallbackLogging)
    highs.run()
    info = highs.getInfo()
    integer = bool(job.model.integrality.any())
    has_point = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    stop = _stop(highs, stream, job.model)
    has_point = has_point and stop is not Stop.INFEASIBLE  # that of a model without columns is none
    value: float | None = info.objective_function_value if has_point else None
    dual: float = info.mip_dual_bound if integer else -math.inf
    if not integer and stop is Stop.PROVED and value is not None:
        dual = value  # a linear program: the optimum is its own bound
    stream.send(
        "done",
        {
            "stop": stop.value,
            "solution": np.array(highs.getSolution().col_value) if has_point else None,
            "objective": value,
            "bound": None if stop is Stop.INFEASIBLE else _finite(dual),
            "row_duals": _row_duals(highs, integer),
            "seconds": stream.elapsed(),
            "nodes": max(0, int(info.mip_node_count)),
            "message": highs.modelStatusToString(highs.getModelStatus()),
            "version": highs.version(),
        },
    )


def main() -> None:
    """Read jobs and solve each, until there are no more.

    Termination asks the solver to stop with what it has.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but messages may reach the pipe
    if len(sys.argv) > 1:
        threading.Thread(target=_watch, args=(int(sys.argv[1]),), daemon=True).start()
    import highspy  # noqa: F401  (imported while waiting for the job)

    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _answer(job, _Stream(out))


def _watch(parent: int) -> None:
    """End this process when its parent ends, also if the parent was killed during a long solve."""
    while os.getppid() == parent:
        time.sleep(PARENT_EVERY_S)
    os._exit(1)


def _answer(job: Job, stream: _Stream) -> None:
    def interrupt(_number: int, _frame: Any) -> None:
        stream.interrupted = True

    signal.signal(signal.SIGTERM, interrupt)
    try:
        solve(job, stream)
    except Exception as error:  # whatever it is, the parent must hear of it
        stream.send(
            "done", {"stop": Stop.ERROR.value, "message": f"{type(error).__name__}: {error}"}
        )


if __name__ == "__main__":
    main()
