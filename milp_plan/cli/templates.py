"""What ``milp-plan new formulation`` writes: code, page and test of a formulation that works.

The formulation is assignment and order, with transfers as delays: the smallest one with the parts
that most models of schedules have. Its plans and starts follow from the names of its columns.
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


_SOURCE = '''"""@NAME@: operators on devices, one at a time on each; transfers are delays."""

from itertools import product

import pyomo.environ as pyo

from milp_plan.api import Card, Objective, ScheduleData, ScheduleFormulation


class @CLASS@(ScheduleFormulation):
    """Assignment and order. Plans follow from ``on`` and ``start``, starts from any plan."""

    card = Card(
        name="@NAME@",
        title="Assignment and order; transfers are delays",
        source="this project",
        objectives=(Objective.MAKESPAN,),
        exact=False,
        surrogate=True,  # transfers wait for no channel here; those of the plan do
    )

    def build(self, problem, options, guide):
        """Write the model."""
        data = ScheduleData(problem)
        ordered = [*data.pairs, *((k, o) for o, k in data.pairs)]
        m = pyo.ConcreteModel("@NAME@")
        m.on = pyo.Var(list(data.time), domain=pyo.Binary)
        m.before = pyo.Var(ordered, domain=pyo.Binary)
        m.start = pyo.Var(data.operators, bounds=(0, data.horizon))
        m.makespan = pyo.Var(bounds=(0, data.horizon))
        m.goal = pyo.Objective(expr=m.makespan)
        m.assign, m.together, m.precede, m.order, m.finish = (pyo.ConstraintList() for _ in "abcde")
        stop = {o: m.start[o] for o in data.operators}
        for o, d in data.time:
            stop[o] += data.time[o, d] * m.on[o, d]
        for o in data.operators:
            m.assign.add(sum(m.on[o, d] for d in data.devices(o)) == 1)
            m.finish.add(stop[o] <= m.makespan)
        for first, *others in data.groups:
            for other, d in product(others, data.devices(first)):
                same = [m.on[other, e] for e in data.devices(other) if e == d]
                m.together.add(m.on[first, d] <= sum(same))
        for o, k in data.edges:
            for a, b in product(data.devices(o), data.devices(k)):
                both = m.on[o, a] + m.on[k, b]
                if (o, k, a, b) in data.delay:
                    m.precede.add(stop[o] + data.delay[o, k, a, b] * (both - 1) <= m.start[k])
                else:  # no channel joins the devices
                    m.precede.add(both <= 1)
        for o, k in ordered:
            m.order.add(stop[o] - data.horizon * (1 - m.before[o, k]) <= m.start[k])
        for o, k in data.pairs:
            for d in {*data.devices(o)} & {*data.devices(k)}:
                m.order.add(m.on[o, d] + m.on[k, d] - 1 <= m.before[o, k] + m.before[k, o])
        return m


FORMULATION = @CLASS@()
'''

_PAGE = """# @NAME@

*Assignment and order: one operator at a time on each device; transfers are delays.*

| | |
|---|---|
| Source | this project |
| Objectives | makespan |
| Exact | no: transfers wait for no channel, so the model's value may lie below the plan's |
| Model | one binary per operator and device, two per pair of operators that no path orders |

## Rules

Operators o, k; devices a, b, d. T is the horizon.

| Family | Formula | Source |
|---|---|---|
| `assign` | Σ_d on[o,d] = 1 | |
| `together` | on[o,d] ≤ on[k,d] for o and k of one group | |
| `precede` | stop[o] + delay[o,k,a,b] (on[o,a] + on[k,b] − 1) ≤ start[k] where k reads from o | |
| `order` | stop[o] − T (1 − before[o,k]) ≤ start[k] | Manne (1960) |
| `order` | on[o,d] + on[k,d] − 1 ≤ before[o,k] + before[k,o] | |
| `finish` | stop[o] ≤ makespan | |

## When to use it

`milp-plan solve INSTANCE --formulation @NAME@` (by name when the file lies in `formulations/`, by
path to `@NAME@.py` from anywhere).

It does not apply where memory may bind, and where an operator runs on no single device; it says so.
"""

_TEST = '''"""Tests of the formulation @NAME@: the contract, and what is special about it."""

from __future__ import annotations

from pathlib import Path

from milp_plan.contract import FormulationContract
from milp_plan.models.registry import load

FILE = Path(__file__).parent / "@PATH@"


class Test@CLASS@(FormulationContract):
    """Everything that is asked of any formulation."""

    reference = str(FILE)
    limited = False  # the model has no rows about memory


def test_card_has_the_name_of_the_file() -> None:
    """It can be called by name when the file lies in ``formulations/``."""
    found = load(FILE)
    assert found.error is None
    assert found.name == FILE.stem
'''
