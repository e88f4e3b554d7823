"""A plan as the rules read it: the parts that make sense, sorted by what they are about.

A plan may come from anywhere and be broken in any way. Whatever does not make sense is left out
here and reported by the rule it breaks, so no other rule has to expect it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from milp_plan.core import FULL, OperatorRun, Option, Plan, Transfer, Value

from .facts import Facts
from .resources import Site

Times = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a known operator, with a known option, on known and different devices."""

    operator: str
    option: Option
    site: Site
    times: Times | None


@dataclass(frozen=True, slots=True)
class Journey:
    """A transfer of a known value between known devices."""

    transfer: Transfer
    source: Site
    target: Site
    layout: str
    times: Times | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the law says one value gets from its producer to its consumers.

    Parameters
    ----------
    value, producer, layout
        The value, the run that makes it and the layout that run leaves behind.
    native
        Consumers that read the native copy, each with the devices on which it does.
    deliveries
        (target, layout) of each copy that has to travel -> the runs that read it.
    complete
        Whether the plan places every consumer; if not, more copies may be needed than listed.
    """

    value: Value
    producer: Run
    layout: str
    native: tuple[tuple[Run, Site], ...]
    deliveries: dict[tuple[Site, str], list[Run]]
    complete: bool


def exact_times(task: OperatorRun | Transfer) -> Times | None:
    """Start and stop where both are exact integers, else ``None``."""
    start, stop = task.start_ns, task.stop_ns
    if type(start) is int and type(stop) is int:
        return (start, stop)
    return None


def has_any_time(plan: Plan) -> bool:
    """Whether the plan gives a time for anything; then it has to give all of them."""
    tasks: Iterable[OperatorRun | Transfer] = (*plan.runs, *plan.transfers)
    return any(task.start_ns is not None or task.stop_ns is not None for task in tasks)


class Reading:
    """One plan against the facts of its problem."""

    def __init__(self, facts: Facts, plan: Plan) -> None:
        self.facts = facts
        self.plan = plan
        self.runs: dict[str, Run] = {}
        """Operator -> its first run that makes sense."""
        self.all_runs: list[Run] = []
        """Runs that make sense, second runs of an operator included."""
        for entry in plan.runs:
            run = self._run(entry)
            if run is not None:
                self.all_runs.append(run)
                self.runs.setdefault(run.operator, run)
        self.journeys: list[Journey] = []
        self.journeys_of: dict[str, list[Journey]] = {}
        for transfer in plan.transfers:
            if self._makes_sense(transfer):
                journey = Journey(
                    transfer,
                    transfer.source,
                    transfer.target,
                    transfer.layout,
                    exact_times(transfer),
                )
                self.journeys.append(journey)
                self.journeys_of.setdefault(transfer.value, []).append(journey)

    @cached_property
    def scheduled(self) -> bool:
        """Whether the plan has to say when everything runs, or tries to."""
        return self.facts.problem.needs_schedule or has_any_time(self.plan)

    def _run(self, entry: OperatorRun) -> Run | None:
        option = self.facts.options.get(entry.operator, {}).get(entry.option)
        if option is None or not self.facts.are_devices(entry.devices):
            return None
        return Run(entry.operator, option, entry.devices, exact_times(entry))

    def _makes_sense(self, transfer: Transfer) -> bool:
        value = self.facts.values.get(transfer.value)
        return (
            value is not None
            and transfer.layout in value.bytes
            and self.facts.are_devices(transfer.source)
            and self.facts.are_devices(transfer.target)
        )

    @cached_property
    def distributions(self) -> tuple[Distribution, ...]:
        """One entry per value whose producer the plan places, in value order."""
        found = []
        for value in self.facts.made:
            producer = self.runs.get(value.producer or "")
            if producer is not None:
                found.append(self._distribute(value, producer))
        return tuple(found)

    def _distribute(self, value: Value, producer: Run) -> Distribution:
        layout = producer.option.layout_written(value.name)
        native: list[tuple[Run, Site]] = []
        deliveries: dict[tuple[Site, str], list[Run]] = {}
        complete = True
        for consumer in value.consumers:
            run = self.runs.get(consumer)
            if run is None:
                complete = False
                continue
            wanted = run.option.layout_read(value.name)
            if wanted == layout and run.site == producer.site:
                native.append((run, run.site))
            elif wanted == layout == FULL:
                here = tuple(device for device in run.site if device in producer.site)
                if here:
                    native.append((run, here))
                for device in run.site:
                    if device not in producer.site:
                        deliveries.setdefault(((device,), FULL), []).append(run)
            else:
                deliveries.setdefault((run.site, wanted), []).append(run)
        return Distribution(value, producer, layout, tuple(native), deliveries, complete)
