"""What ``milp-plan new formulation`` writes: code, page and test of a formulation that works.

The formulation does one thing at a time, on any devices. That is the smallest one which plans
most problems, so it shows each part of the protocol, and is a start for what does more.
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


_SOURCE = '''"""@NAME@: one thing at a time, on any devices.

Letters: operator o, k; device d, s; value v, made by o, read by k.

=============  =================================================================================
``one``        sum_d on[o,d] = 1
``together``   on[o,d] = on[k,d]                                        o and k of one group
``carry``      send[v,s,d] >= on[o,s] + on[k,d] - 1                     s and d joined by a channel
``apart``      on[o,s] + on[k,d] <= 1                                   s and d not joined
``hold``       held[v,d] >= on[o,d]                                     o makes or reads v
``memory``     sum_v bytes[v] held[v,d] + workspace[o] on[o,d] <= memory of d
``total``      minimise sum_o,d ticks[o,d] on[o,d] + sum_v,s,d ticks[v,s,d] send[v,s,d]
=============  =================================================================================

Operators and transfers run one after the other, so the sum of their times is the makespan. Each
operator takes its fastest option on a single device that keeps values whole.
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
    Transfer,
    Value,
    Values,
)

MIB = 2**20

Able = dict[str, dict[str, Option]]
"""Operator -> device -> its option there."""


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation: ``milp-plan solve --option memory=false``."""

    memory: bool = field(
        default=True, metadata={"help": "devices hold all that they ever hold at once"}
    )


class @CLASS@:
    """One thing at a time."""

    card = Card(
        name="@NAME@",
        title="One thing at a time, on any devices",
        source="this project",
        objectives=(Objective.MAKESPAN,),
        exact=False,  # a restriction: its optimum need not be the problem's
    )
    handles = PlanningProblem
    Options = Switches

    def restricts(self, options: Switches) -> bool:
        """Plans that do two things at once are left out: bounds prove nothing."""
        return True

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Say in words why a problem is not for this formulation."""
        if problem.objective not in self.card.objectives:
            return f"objective {problem.objective} is not makespan"
        if problem.memory_law is not MemoryLaw.INSTANT:
            return f"memory law {problem.memory_law} is not instant"
        if not _first_fit(problem, options.memory):
            return "first fit finds no devices that run and hold everything"
        return None

    def build(self, problem: PlanningProblem, options: Switches, guide: Guide) -> pyo.ConcreteModel:
        """Write the model."""
        able = {operator.name: _able(problem, operator) for operator in problem.graph.operators}
        m = pyo.ConcreteModel("@NAME@")
        m.on = pyo.Var([(o, d) for o, on in able.items() for d in on], within=pyo.Binary)
        m.one = pyo.ConstraintList()
        for o, on in able.items():
            m.one.add(pyo.quicksum(m.on[o, d] for d in on) == 1)
        self._together(m, problem, able)
        self._carry(m, problem, able)
        self._hold(m, problem, able)
        if options.memory:
            self._memory(m, problem, able)
        work = pyo.quicksum(_ticks(problem, able[o][d], d) * m.on[o, d] for o, d in m.on)
        sent = pyo.quicksum(_carried(problem, v, s, d) * m.send[v, s, d] for v, s, d in m.send)
        m.total = pyo.Objective(expr=work + sent)
        return m

    def _together(self, m: pyo.ConcreteModel, problem: PlanningProblem, able: Able) -> None:
        """Operators of one group run on one device."""
        m.together = pyo.ConstraintList()
        for first, *others in problem.graph.groups.values():
            for other in others:
                for d in {*able[first], *able[other]}:
                    one, two = (m.on[o, d] if d in able[o] else 0 for o in (first, other))
                    m.together.add(one - two == 0)

    def _carry(self, m: pyo.ConcreteModel, problem: PlanningProblem, able: Able) -> None:
        """What is read elsewhere than it is made is sent, over a channel."""
        links = {(c.source, c.target) for c in problem.cluster.channels}
        made = {v.name: v for v in problem.graph.values if v.producer is not None}
        m.send = pyo.Var([(v, s, d) for v in made for s, d in sorted(links)], bounds=(0, 1))
        m.carry, m.apart = pyo.ConstraintList(), pyo.ConstraintList()
        for v in made.values():
            for k in v.consumers:
                for s, d in [(s, d) for s in able[v.producer] for d in able[k] if s != d]:
                    both = m.on[v.producer, s] + m.on[k, d]
                    if (s, d) in links:
                        m.carry.add(both - m.send[v.name, s, d] <= 1)
                    else:
                        m.apart.add(both <= 1)

    def _hold(self, m: pyo.ConcreteModel, problem: PlanningProblem, able: Able) -> None:
        """A device holds what its operators make and read."""
        values, devices = problem.graph.values, problem.cluster.device_names
        m.held = pyo.Var([(v.name, d) for v in values for d in devices], bounds=(0, 1))
        m.hold = pyo.ConstraintList()
        for v in values:
            for o in _users(v):
                for d in able[o]:
                    m.hold.add(m.on[o, d] - m.held[v.name, d] <= 0)

    def _memory(self, m: pyo.ConcreteModel, problem: PlanningProblem, able: Able) -> None:
        """All that a device ever holds fits beside the workspace of each of its operators."""
        m.memory = pyo.ConstraintList()
        for d, limit in _limits(problem).items():
            held = pyo.quicksum(
                v.bytes[FULL] / MIB * m.held[v.name, d] for v in problem.graph.values
            )
            for o, on in able.items():
                if d in on:
                    used = held + on[d].workspace_bytes / MIB * m.on[o, d]
                    m.memory.add(used <= limit / MIB)

    def scale(self, problem: PlanningProblem, options: Switches, guide: Guide) -> Scale:
        """One unit of the objective is one tick."""
        return Scale(1.0)

    def decode(
        self, problem: PlanningProblem, options: Switches, guide: Guide, values: Values
    ) -> Plan:
        """Run the operators one after the other, each behind the transfers it waits for."""
        graph, on = problem.graph, values["on"]
        able = {o.name: _able(problem, o) for o in graph.operators}
        place = {o: max(able[o], key=lambda d: on[o, d]) for o in able}
        clock, there = 0, set()
        runs, transfers = [], []
        for name in graph.topological_order:
            d = place[name]
            for v in graph.inputs[name]:
                if v.producer is None or place[v.producer] == d or (v.name, d) in there:
                    continue
                source = place[v.producer]
                start, clock = clock, clock + _carried(problem, v.name, source, d)
                transfers.append(Transfer(v.name, (source,), (d,), FULL, start, clock))
                there.add((v.name, d))
            start, clock = clock, clock + _ticks(problem, able[name][d], d)
            runs.append(OperatorRun(name, able[name][d].name, (d,), start, clock))
        return Plan(problem.name, tuple(runs), tuple(transfers), fingerprint=problem.fingerprint)

    def encode(
        self, problem: PlanningProblem, options: Switches, model: pyo.ConcreteModel, plan: Plan
    ) -> Values | None:
        """Values of the columns under a plan; ``None`` where the model has no room for it."""
        place = {run.operator: run.devices[0] for run in plan.runs}
        if any((o, d) not in model.on for o, d in place.items()):
            return None
        on = {(o, d): float(place[o] == d) for o, d in model.on}
        again = self.decode(problem, options, Guide(), {"on": on})
        if again.stop_ns != plan.stop_ns:
            return None  # it does two things at once, or waits
        sent = {(t.value, t.source[0], t.target[0]) for t in again.transfers}
        held = {(v.name, place[o]) for v in problem.graph.values for o in _users(v)}
        if options.memory and not _fits(problem, place):
            return None
        return {
            "on": on,
            "send": {column: float(column in sent) for column in model.send},
            "held": {column: float(column in held) for column in model.held},
        }


def _able(problem: PlanningProblem, operator: Operator) -> dict[str, Option]:
    """Device -> fastest option of the operator there that reads and writes whole values."""
    whole = [
        option
        for option in operator.options
        if option.gang == 1 and {*option.reads.values(), *option.writes.values()} <= {FULL}
    ]
    able = {}
    for device in problem.cluster.devices:
        there = [option for option in whole if device.device_class in option.duration_ns]
        if there:
            able[device.name] = min(there, key=lambda o: o.duration_ns[device.device_class])
    return able


def _first_fit(problem: PlanningProblem, memory: bool) -> dict[str, str] | None:
    """Each group, and each operator of none, on the device of those before it or the next one."""
    place: dict[str, str] = {}
    for name in problem.graph.topological_order:
        operator = problem.graph.operator(name)
        if name in place:
            continue
        members = problem.graph.groups.get(operator.group or "", (name,))
        for d in dict.fromkeys([*list(place.values())[-1:], *problem.cluster.device_names]):
            tried = place | dict.fromkeys(members, d)
            able = all(d in _able(problem, problem.graph.operator(o)) for o in members)
            if able and _joined(problem, tried) and (not memory or _fits(problem, tried)):
                place = tried
                break
        else:
            return None
    return place


def _joined(problem: PlanningProblem, place: dict[str, str]) -> bool:
    """Whether a channel leads from each operator placed to the readers of what it makes."""
    return all(
        place[v.producer] == place[k] or problem.cluster.channel(place[v.producer], place[k])
        for v in problem.graph.values
        for k in v.consumers
        if v.producer in place and k in place
    )


def _fits(problem: PlanningProblem, place: dict[str, str]) -> bool:
    """Whether each device holds all that its operators make and read, and any one's workspace."""
    for d, limit in _limits(problem).items():
        here = [o for o, device in place.items() if device == d]
        spaces = [_able(problem, problem.graph.operator(o))[d].workspace_bytes for o in here]
        values = (v for v in problem.graph.values if not {*here}.isdisjoint(_users(v)))
        if sum(v.bytes[FULL] for v in values) + max(spaces, default=0) > limit:
            return False
    return True


def _limits(problem: PlanningProblem) -> dict[str, int]:
    """Device -> bytes, for those with a limit."""
    devices = problem.cluster.devices
    return {d.name: d.memory_bytes for d in devices if d.memory_bytes is not None}


def _users(value: Value) -> tuple[str, ...]:
    """Operators that make or read a value."""
    return value.consumers if value.producer is None else (value.producer, *value.consumers)


def _ticks(problem: PlanningProblem, option: Option, device: str) -> int:
    return option.duration_ns[problem.cluster.device(device).device_class]


def _carried(problem: PlanningProblem, value: str, source: str, target: str) -> int:
    channel = problem.cluster.channel(source, target)
    assert channel is not None
    return channel.transfer_ns(problem.graph.value(value).payload(FULL))


FORMULATION = @CLASS@()
'''

_PAGE = """# @NAME@

*One thing at a time, on any devices: operators and transfers follow each other.*

| | |
|---|---|
| Source | this project |
| Objectives | makespan |
| Exact | no: a restriction, its optimum need not be the problem's |
| Model | one binary per operator and device; columns for what is sent and held |

## Rules

| Family | Formula | Source |
|---|---|---|
| `one` | Σ_d on[o,d] = 1 | |
| `together` | on[o,d] = on[k,d] for o and k of one group | |
| `carry` | send[v,s,d] ≥ on[o,s] + on[k,d] − 1 where v is made by o and read by k | |
| `apart` | on[o,s] + on[k,d] ≤ 1 where no channel joins s and d | |
| `hold` | held[v,d] ≥ on[o,d] where o makes or reads v | |
| `memory` | Σ_v bytes[v] · held[v,d] + workspace[o] · on[o,d] ≤ memory of d | |
| `total` | minimise Σ ticks · on + Σ ticks · send | |

## Options

| Option | Default | Says |
|---|---|---|
| `memory` | true | devices hold all that they ever hold at once |

## When to use it

`milp-plan solve INSTANCE --formulation @NAME@` (by name when the file lies in `formulations/`, by
path to `@NAME@.py` from anywhere).

It does not apply to problems with operators that no single device can run; it says so.
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
