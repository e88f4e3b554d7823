"""A base for formulations of schedules: a subclass writes the model, names say the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar

from milp_plan.core import FULL, FormulationError, Option, Placement, Plan, PlanningProblem
from milp_plan.models.builders import NoOptions, coarser, column_values
from milp_plan.models.protocol import Card, Guide, Scale, Values

from .retime import Arc, retime
from .sets import ScheduleSets, needed_routes

if TYPE_CHECKING:
    import pyomo.environ as pyo

MOST_UNITS = 100_000
"""Units of time in the horizon of a model, at most: solvers work to a millionth."""

Names = tuple[str, str]
"""Two operators, or an operator and a device."""


class ScheduleData:
    """Index sets of a model of single devices.

    Every operator takes its fastest option that runs on one device and keeps values whole. Times
    are in units of the model, of which the horizon has at most :data:`MOST_UNITS`.

    Parameters
    ----------
    problem
        Any problem with a schedule.

    Attributes
    ----------
    operators
        Names, predecessors first.
    groups
        Operators of each colocation group, which run on one device.
    time
        (operator, device) -> duration there.
    delay
        (producer, consumer, device of the first, device of the second) -> time of the longest
        transfer between them, 0 on one device; pairs of devices that cannot be used are missing.
    horizon
        Time in which everything can run one after the other.
    unit
        Ticks in one unit of time.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem, self.operators = problem, problem.graph.topological_order
        self.groups = list(problem.graph.groups.values())
        self.placements: dict[Names, Placement] = {}
        for name in self.operators:
            for placement in problem.placements(name):
                if _is_plain(problem.graph.operator(name).option(placement.option)):
                    spot = (name, placement.devices[0])
                    known = self.placements.setdefault(spot, placement)
                    if problem.duration_ticks(name, placement) < problem.duration_ticks(
                        name, known
                    ):
                        self.placements[spot] = placement

    def devices(self, operator: str) -> list[str]:
        """Return the devices that can run an operator."""
        return [device for name, device in self.placements if name == operator]

    @cached_property
    def unit(self) -> float:
        """See the class."""
        return coarser(self.sets.tick, self.sets.serial_ticks, MOST_UNITS)

    @cached_property
    def time(self) -> dict[Names, float]:
        """See the class."""
        return {
            (name, device): self.problem.duration_ticks(name, placement) / self.unit
            for (name, device), placement in self.placements.items()
        }

    @cached_property
    def sets(self) -> ScheduleSets:
        """Sets of the whole problem."""
        return ScheduleSets(self.problem)

    @cached_property
    def edges(self) -> list[Names]:
        """(producer, consumer) of every value between operators."""
        return list(self.sets.values_between)

    @cached_property
    def delay(self) -> dict[tuple[str, str, str, str], float]:
        """See the class."""
        result: dict[tuple[str, str, str, str], float] = {}
        for one, two in self.edges:
            for a, b in product(self.devices(one), self.devices(two)):
                both = (self.placements[one, a], self.placements[two, b])
                if both in self.sets.combinations[one, two]:
                    needed = self.sets.combinations[one, two][both].values()
                    times = [route.duration_ticks for ways in needed for route in ways]
                    result[one, two, a, b] = max(times, default=0) / self.unit
        return result

    @cached_property
    def pairs(self) -> list[Names]:
        """Pairs of operators that may share a device and that no path orders."""
        after = self.problem.graph.descendants
        return [
            (one, two)
            for place, one in enumerate(self.operators)
            for two in self.operators[place + 1 :]
            if two not in after[one] and {*self.devices(one)} & {*self.devices(two)}
        ]

    @property
    def horizon(self) -> float:
        """See the class."""
        return self.sets.serial_ticks / self.unit


class ScheduleFormulation:
    """A formulation whose plans follow from its decisions; a subclass has a card and ``build``.

    Variables of these names have a meaning; other variables are the subclass's own:

    =====================  ======================================================================
    ``on[o, d]``           binary: operator o runs on device d; the one family that must be there
    ``start[o]``           start in units of time; decides the order on devices and
                           channels. Without it operators follow the topological order
    ``before[o, k]``       binary: o stops before k starts
    ``makespan``           stop of the last operator
    =====================  ======================================================================

    :meth:`decode` reads ``on`` and ``start`` alone: it rounds ``on``, orders by ``start``, and
    computes the earliest exact times. :meth:`encode` fills these variables from a plan and calls
    :meth:`fill` for the others.

    Attributes
    ----------
    memory
        Whether the model has constraints about memory. Without, problems in which a device cannot
        hold every value at once are refused.
    """

    card: Card
    handles: ClassVar[type] = PlanningProblem
    Options: ClassVar[type] = NoOptions
    memory: ClassVar[bool] = False

    def build(self, problem: PlanningProblem, options: Any, guide: Guide) -> pyo.ConcreteModel:
        """Write the model; ``ScheduleData(problem)`` has what it ranges over."""
        raise NotImplementedError

    def restricts(self, options: Any) -> bool:  # noqa: ARG002
        """Return whether the model may leave out the best plans: unless the card says exact."""
        return not self.card.exact

    def unsupported(self, problem: PlanningProblem, options: Any) -> str | None:  # noqa: ARG002
        """Return which part of a problem the variables have no room for."""
        if problem.objective not in self.card.objectives:
            return f"objective {problem.objective} is not one of {', '.join(self.card.objectives)}"
        if problem.serial is not None:
            return "transfers are work of the devices"
        able = {name for name, _ in ScheduleData(problem).placements}
        unable = [name for name in problem.graph.topological_order if name not in able]
        if unable:
            return f"operator {unable[0]!r} has no option on one device with whole values"
        return None if self.memory else _binding_memory(problem)

    def scale(self, problem: PlanningProblem, options: Any, guide: Guide) -> Scale:  # noqa: ARG002
        """Return what one unit of times and of the objective is, as in :class:`ScheduleData`."""
        data = ScheduleData(problem)
        return Scale(data.unit, grain=data.sets.tick)

    def decode(
        self,
        problem: PlanningProblem,
        options: Any,  # noqa: ARG002
        guide: Guide,  # noqa: ARG002
        values: Values,
    ) -> Plan | None:
        """Return the plan with the earliest times that placements and order allow."""
        data = ScheduleData(problem)
        _look_for_on(values)
        on = values["on"]
        places: dict[str, str] = {}
        for name, device in data.placements:
            if name not in places or on[name, device] > on[name, places[name]]:
                places[name] = device
        started = values.get("start", {name: n for n, name in enumerate(data.operators)})
        hint = {name: started[name] for name in data.operators}
        return _timed(data, places, hint)

    def encode(
        self, problem: PlanningProblem, options: Any, model: pyo.ConcreteModel, plan: Plan
    ) -> Values | None:
        """Return the variables under a plan; ``None`` where it uses a placement that ``on`` lacks.

        Raises
        ------
        FormulationError
            A variable has no value; says which.
        """
        import pyomo.environ as pyo

        _look_for_on([family.local_name for family in model.component_objects(pyo.Var)])
        unit = self.scale(problem, options, Guide()).unit
        runs = {run.operator: run for run in plan.runs}
        stop = {run.operator: run.stop_ticks or 0 for run in plan.runs}
        start = {run.operator: run.start_ticks or 0 for run in plan.runs}
        known: Mapping[str, Any] = {
            "on": lambda index: float(runs[index[0]].devices == (index[1],)),
            "start": lambda index: start[index] / unit,
            "before": lambda index: float(stop[index[0]] <= start[index[1]]),
            "makespan": lambda _: plan.stop_ticks / unit,
        }
        if any((run.operator, *run.devices) not in model.on for run in plan.runs):
            return None
        columns = list(model.component_data_objects(pyo.Var))
        for column in columns:
            rule = known.get(column.parent_component().local_name)
            value = None if rule is None else rule(column.index())
            column.set_value(value, skip_validation=True)
        self.fill(problem, model, plan)
        empty = sorted({c.parent_component().local_name for c in columns if c.value is None})
        if empty:
            raise FormulationError(
                f"variables without a value: {', '.join(empty)}; those of a plan are "
                f"{', '.join(known)}, and `fill` sets others"
            )
        return column_values(model)

    def fill(self, problem: PlanningProblem, model: pyo.ConcreteModel, plan: Plan) -> None:
        """Set the variables that have no meaning here; nothing, unless a subclass has some."""


def _look_for_on(families: Iterable[str]) -> None:
    """Say so where a model lacks the variable that decides placements."""
    if "on" not in families:
        raise LookupError(f"the model has no variable `on`; it has {', '.join(families)}")


def _is_plain(option: Option) -> bool:
    return option.gang == 1 and {*option.reads.values(), *option.writes.values()} <= {FULL}


def _binding_memory(problem: PlanningProblem) -> str | None:
    """Return why memory may bind; ``None`` where every device can hold everything."""
    options = [option for entry in problem.graph.operators for option in entry.options]
    most = sum(max(value.bytes.values(), default=0) for value in problem.graph.values)
    most += max((option.workspace_bytes for option in options), default=0)
    limits = [d.memory_bytes for d in problem.cluster.devices if d.memory_bytes is not None]
    if min(limits, default=most) >= most:
        return None
    return f"the model has no memory rows, and not every device holds all {most} bytes"


def _timed(data: ScheduleData, places: Mapping[str, str], hint: Mapping[str, float]) -> Plan:
    """Return the plan in which tasks of one resource follow each other as hinted."""
    placements = {name: data.placements[name, device] for name, device in places.items()}
    rank = {name: n for n, name in enumerate(data.operators)}
    transfers = needed_routes(data.sets, placements)
    key: dict[str, tuple[float, int, int]] = {n: (hint[n], 1, rank[n]) for n in placements}
    uses: dict[str, list[str]] = {}
    for name, device in places.items():
        uses.setdefault(device, []).append(name)
    for name, (route, readers) in transfers.items():
        first = min(readers, key=lambda reader: (hint[reader], rank[reader]))
        key[name] = (hint[first], 0, rank[first])
        for resource in route.resources:
            uses.setdefault(resource, []).append(name)
    arcs = [
        Arc(before, after)
        for tasks in uses.values()
        for before, after in combinations(sorted(tasks, key=key.__getitem__), 2)
    ]
    return retime(data.sets, placements, arcs, {name: spot[0] for name, spot in key.items()})
