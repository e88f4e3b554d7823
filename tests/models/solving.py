"""Building, solving and checking in this process, through the code that the worker runs."""

from __future__ import annotations

import io
import pickle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.api import Guide, Scale
from milp_plan.backends import Limits, Stop, worker
from milp_plan.check import verify
from milp_plan.contract import FormulationContract
from milp_plan.core import Plan, PlanningProblem, Verdict
from milp_plan.lp import CompiledModel
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models.protocol import Formulation
from milp_plan.models.registry import get
from tests.support.serial_brute import brute_serial


class SerialContract(FormulationContract):
    """The contract, with enumeration under the serial law as the oracle."""

    def optimum(self, problem: PlanningProblem) -> int | None:
        found = brute_serial(problem)
        assert found is not None
        return found[0]


class Answer(NamedTuple):
    """What HiGHS says about a model."""

    stop: Stop
    vector: NDArray[np.float64] | None
    objective: float | None
    bound: float | None
    start_accepted: bool | None


def solve_here(
    model: CompiledModel, limits: Limits, start: NDArray[np.float64] | None = None
) -> Answer:
    """Solve a model without a process of its own."""
    pipe = io.BytesIO()
    worker.solve(worker.Job(model, limits, start), worker._Stream(pipe))
    pipe.seek(0)
    messages = []
    while pipe.tell() < len(pipe.getvalue()):
        messages.append(pickle.load(pipe))
    accepted = next(message[2] for message in messages if message[0] == "started")
    done = messages[-1][1]
    return Answer(Stop(done["stop"]), done["solution"], done["objective"], done["bound"], accepted)


class Solution(NamedTuple):
    """A model, its optimum, and the plan it stands for."""

    source: Any
    model: CompiledModel
    scale: Scale
    answer: Answer
    plan: Plan
    verdict: Verdict


def formulation(name: str) -> Formulation:
    """Return a shipped formulation."""
    found = get(name).formulation
    assert found is not None
    return found


def limits_for(scale: Scale) -> Limits:
    """Stop at the optimum: where the model counts in grains, a gap below one is none."""
    counts = scale.unit <= scale.grain
    return Limits(gap=1e-9, gap_abs=0.999 * scale.grain / scale.unit if counts else 1e-9)


def optimise(
    name: str, problem: PlanningProblem, guide: Guide | None = None, **switches: Any
) -> Solution:
    """Build, solve to the optimum, decode and check."""
    form, guide = formulation(name), guide or Guide()
    options = form.Options(**switches)
    source = form.build(problem, options, guide)
    model = compile_pyomo(source)
    scale = form.scale(problem, options, guide)
    answer = solve_here(model, limits_for(scale))
    assert answer.stop is Stop.PROVED, f"{problem.name}: {answer.stop}"
    assert answer.vector is not None
    plan = form.decode(problem, options, guide, model.name_values(answer.vector))
    return Solution(source, model, scale, answer, plan, verify(problem, plan))
