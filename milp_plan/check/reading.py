"""A plan as the rules read it: its meaningful parts, sorted by operator and value.

A plan may come from anywhere and be broken in any way. Whatever does not make sense is left out
here and reported by the rule it breaks, so no other rule has to expect it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from milp_plan.core import FULL, OperatorRun, Option, Plan, Transfer, Value

from .copies import Reader, Sending, Task, Trail
from .facts import Facts, Site

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
    """How a value is sent from its producer to its consumers by the law.

    Parameters
    ----------
    value, producer, layout
        The value, the run that makes it, and the layout that the run writes.
    native
        Consumers that read the native copy, each with the devices on which it does.
    deliveries
        (target, layout) of each copy that has to be sent -> the runs that read it.
    complete
        Whether the plan places every consumer; if not, more copies may be needed.
    """

    value: Value
    producer: Run
    layout: str
    native: tuple[tuple[Run, Site], ...]
    deliveries: dict[tuple[Site, str], list[Run]]
    complete: bool


_Timed = TypeVar("_Timed", Run, Journey)


def exact_times(task: OperatorRun | Transfer) -> Times | None:
    """Return start and stop if both are exact integers, else ``None``."""
    start, stop = task.start_ticks, task.stop_ticks
    if type(start) is int and type(stop) is int:
        return (start, stop)
    return None


def has_any_time(plan: Plan) -> bool:
    """Return whether the plan has any time; then it has to have all of them."""
    tasks: Iterable[OperatorRun | Transfer] = (*plan.runs, *plan.transfers)
    return any(task.start_ticks is not None or task.stop_ticks is not None for task in tasks)


class Reading:
    """One plan, read with the tables of its problem."""

    def __init__(self, facts: Facts, plan: Plan) -> None:
        self.facts = facts
        self.plan = plan
        self.runs: dict[str, Run] = {}
        """Operator -> its first meaningful run."""
        self.all_runs: list[Run] = []
        """Meaningful runs, including second runs of an operator."""
        self.runs_of: dict[str, list[Run]] = {}
        """Operator -> its runs that count: all if operators may run again, else the first."""
        for entry in plan.runs:
            run = self._run(entry)
            if run is not None:
                self.all_runs.append(run)
                self.runs.setdefault(run.operator, run)
                counted = self.runs_of.setdefault(run.operator, [])
                if not counted or facts.problem.allows_memory_saving:
                    counted.append(run)
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
    def counted(self) -> list[Run]:
        """Runs that count, operator by operator."""
        return [run for runs in self.runs_of.values() for run in runs]

    @cached_property
    def scheduled(self) -> bool:
        """Whether the plan needs times, or has some."""
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

    def _has_trail(self, value: Value) -> bool:
        """Return whether a value is made more than once or is sent to or from a host."""
        if not self.facts.problem.allows_memory_saving:
            return False
        hosts = self.facts.cluster.hosts
        return len(self.runs_of.get(value.producer or "", ())) > 1 or any(
            not hosts.isdisjoint((*journey.source, *journey.target))
            for journey in self.journeys_of.get(value.name, ())
        )

    @cached_property
    def distributions(self) -> tuple[Distribution, ...]:
        """One entry per value that one run makes and no host stores, in value order."""
        entries = []
        for value in self.facts.made:
            producer = self.runs.get(value.producer or "")
            if producer is not None and not self._has_trail(value):
                entries.append(self._distribute(value, producer))
        return tuple(entries)

    @cached_property
    def trails(self) -> tuple[Trail, ...]:
        """One entry per value that several runs make or a host stores, in value order."""
        return tuple(self._trail(value) for value in self.facts.made if self._has_trail(value))

    def _trail(self, value: Value) -> Trail:
        order = itertools.count()

        def tasks(entries: Iterable[_Timed]) -> Iterator[tuple[_Timed, Task]]:
            for entry in entries:
                if entry.times is not None:
                    yield entry, Task(entry, *entry.times, next(order))

        natives = [
            (task, run.site, run.option.layout_written(value.name))
            for run, task in tasks(self.runs_of.get(value.producer or "", ()))
        ]
        sendings = [
            Sending(task, journey.source, journey.target, journey.layout)
            for journey, task in tasks(self.journeys_of.get(value.name, ()))
        ]
        consumers = [run for name in value.consumers for run in self.runs_of.get(name, ())]
        readers = [
            Reader(task, run.site, run.option.layout_read(value.name))
            for run, task in tasks(consumers)
        ]
        return Trail(self.facts, value, natives, sendings, readers)

    def _consumers(self, value: Value) -> Iterator[Run | None]:
        """Yield runs that read a value; ``None`` for a consumer that the plan does not place."""
        for consumer in value.consumers:
            yield from self.runs_of.get(consumer, (None,))

    def _distribute(self, value: Value, producer: Run) -> Distribution:
        layout = producer.option.layout_written(value.name)
        native: list[tuple[Run, Site]] = []
        deliveries: dict[tuple[Site, str], list[Run]] = {}
        complete = True
        for run in self._consumers(value):
            if run is None:
                complete = False
                continue
            needed = run.option.layout_read(value.name)
            if needed == layout and run.site == producer.site:
                native.append((run, run.site))
            elif needed == layout == FULL:
                here = tuple(device for device in run.site if device in producer.site)
                if here:
                    native.append((run, here))
                for device in run.site:
                    if device not in producer.site:
                        deliveries.setdefault(((device,), FULL), []).append(run)
            else:
                deliveries.setdefault((run.site, needed), []).append(run)
        return Distribution(value, producer, layout, tuple(native), deliveries, complete)
