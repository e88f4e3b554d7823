"""What ``milp-plan new formulation`` writes: code, page and test of a formulation that works.

The formulation puts everything on one device. That is the smallest one which keeps every law, so
it shows each part of the protocol and leaves little to delete.
"""

from __future__ import annotations


def source(name: str) -> str:
    """Return the module of a formulation of that name."""
    return _SOURCE.replace("@NAME@", name).replace("@CLASS@", class_name(name))


def page(name: str) -> str:
    """Return its page."""
    return _PAGE.replace("@NAME@", name)


def test(name: str, path: str) -> str:
    """Return its test; ``path`` leads from the folder of the test to the module."""
    filled = _TEST.replace("@NAME@", name).replace("@CLASS@", class_name(name))
    return filled.replace("@PATH@", path)


def class_name(name: str) -> str:
    """Return ``CamelCase`` of a ``snake_case`` name."""
    return "".join(part.capitalize() for part in name.split("_"))


_SOURCE = '''"""@NAME@: one device runs everything, one operator after the other.

===========  ===============================
``one``      sum_d on[d] = 1
``total``    minimise sum_d work[d] on[d]
===========  ===============================

work[d] is the sum of the operators' durations on device d, each with its fastest option that runs
on a single device and keeps all values whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyomo.environ as pyo

from milp_plan.api import (
    FULL,
    Card,
    Guide,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Scale,
    Values,
)


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation: ``milp-plan solve --option memory=false``."""

    memory: bool = field(
        default=True, metadata={"help": "take only devices whose memory holds all values at once"}
    )


class @CLASS@:
    """Everything on one device."""

    card = Card(
        name="@NAME@",
        title="Everything on one device",
        source="this project",
        objectives=(Objective.MAKESPAN,),
        exact=False,  # a restriction: its optimum need not be the problem's
    )
    handles = PlanningProblem
    Options = Switches

    def restricts(self, options: Switches) -> bool:
        """Plans on several devices are left out: bounds and infeasibility prove nothing."""
        return True

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Say in words why a problem is not for this formulation."""
        if problem.objective not in self.card.objectives:
            return f"objective {problem.objective} is not makespan"
        if problem.memory_law is not MemoryLaw.INSTANT:
            return f"memory law {problem.memory_law} is not instant"
        if not self._work(problem, options):
            return "no device can run and hold everything"
        return None

    def build(self, problem: PlanningProblem, options: Switches, guide: Guide) -> pyo.ConcreteModel:
        """Write the model."""
        work = self._work(problem, options)
        m = pyo.ConcreteModel("@NAME@")
        m.on = pyo.Var(list(work), within=pyo.Binary)
        m.one = pyo.Constraint(expr=pyo.quicksum(m.on[d] for d in work) == 1)
        m.total = pyo.Objective(expr=pyo.quicksum(ticks * m.on[d] for d, ticks in work.items()))
        return m

    def scale(self, problem: PlanningProblem, options: Switches, guide: Guide) -> Scale:
        """One unit of the objective is one tick."""
        return Scale(1.0)

    def decode(
        self, problem: PlanningProblem, options: Switches, guide: Guide, values: Values
    ) -> Plan:
        """Run the operators one after the other on the chosen device."""
        on = values["on"]
        device = str(max(on, key=lambda d: on[d]))
        clock, runs = 0, []
        for name in problem.graph.topological_order:
            option = _fastest(problem, problem.graph.operator(name), device)
            assert option is not None
            start, clock = clock, clock + _ticks(problem, option, device)
            runs.append(OperatorRun(name, option.name, (device,), start, clock))
        return Plan(problem.name, tuple(runs), fingerprint=problem.fingerprint)

    def encode(
        self, problem: PlanningProblem, options: Switches, model: pyo.ConcreteModel, plan: Plan
    ) -> Values | None:
        """Values of the columns under a plan; ``None`` where the model has no room for it."""
        used = {device for run in plan.runs for device in run.devices}
        work = self._work(problem, options)
        if len(used) != 1 or not used <= work.keys() or plan.stop_ns != work[min(used)]:
            return None
        return {"on": {device: float(device in used) for device in work}}

    def _work(self, problem: PlanningProblem, options: Switches) -> dict[str, int]:
        """Device -> ticks of all operators, for devices that can run and hold them all."""
        work = {}
        for device in problem.cluster.device_names:
            chosen = [_fastest(problem, op, device) for op in problem.graph.operators]
            able = [option for option in chosen if option is not None]
            if len(able) == len(chosen) and (not options.memory or _fits(problem, able, device)):
                work[device] = sum(_ticks(problem, option, device) for option in able)
        return work


def _ticks(problem: PlanningProblem, option: Option, device: str) -> int:
    return option.duration_ns[problem.cluster.device(device).device_class]


def _fastest(problem: PlanningProblem, operator: Operator, device: str) -> Option | None:
    """Fastest option for one device that reads and writes whole values."""
    kind = problem.cluster.device(device).device_class
    able = [
        option
        for option in operator.options
        if option.gang == 1
        and kind in option.duration_ns
        and {*option.reads.values(), *option.writes.values()} <= {FULL}
    ]
    return min(able, key=lambda option: option.duration_ns[kind], default=None)


def _fits(problem: PlanningProblem, chosen: list[Option], device: str) -> bool:
    """Whether all values and the largest workspace fit at once: enough, though not necessary."""
    limit = problem.cluster.device(device).memory_bytes
    held = sum(value.bytes[FULL] for value in problem.graph.values)
    return limit is None or held + max(option.workspace_bytes for option in chosen) <= limit


FORMULATION = @CLASS@()
'''

_PAGE = """# @NAME@

*Everything on one device, one operator after the other.*

| | |
|---|---|
| Source | this project |
| Objectives | makespan |
| Exact | no: a restriction, its optimum need not be the problem's |
| Model | one binary per device, one row |

## Rules

| Family | Formula | Source |
|---|---|---|
| `one` | Σ_d on[d] = 1 | |
| `total` | minimise Σ_d work[d] · on[d] | |

## Options

| Option | Default | Says |
|---|---|---|
| `memory` | true | take only devices whose memory holds all values at once |

## When to use it

`milp-plan solve INSTANCE --formulation @NAME@` (by name when the file lies in `formulations/`, by
path to `@NAME@.py` from anywhere).

It does not apply to problems without a device that can run and hold everything; it says so.
"""

_TEST = '''"""Tests of the formulation @NAME@: the contract, and what is special about it."""

from __future__ import annotations

from pathlib import Path

from milp_plan.models.contract import FormulationContract
from milp_plan.models.registry import load

FILE = Path(__file__).parent / "@PATH@"


class Test@CLASS@(FormulationContract):
    """Everything that is asked of any formulation."""

    reference = str(FILE)


def test_card_has_the_name_of_the_file() -> None:
    """It can be called by name when the file lies in ``formulations/``."""
    found = load(FILE)
    assert found.error is None
    assert found.name == FILE.stem
'''
