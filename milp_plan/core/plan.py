"""Plans: options, devices and times of operators, and transfers of values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

from .shown import ShownPlan


class Placement(NamedTuple):
    """An option of an operator and the devices that run it."""

    option: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """One run of an operator. Times are ``None`` in a plan without a schedule.

    ``call`` is the number of the device's invocation, from 0, where the problem's serial law
    counts calls and the device pays.
    """

    operator: str
    option: str
    devices: tuple[str, ...]
    start_ticks: int | None = None
    stop_ticks: int | None = None
    call: int | None = None

    @property
    def placement(self) -> Placement:
        """Option and devices."""
        return Placement(self.option, self.devices)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer of a value: it makes a copy in ``layout`` on each target device.

    ``source`` is a device of the producer (for a copy in layout ``full`` made from ``full``), or
    all devices of the producer in order (for every change of layout and every sharded copy).
    """

    value: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    layout: str
    start_ticks: int | None = None
    stop_ticks: int | None = None


@dataclass(frozen=True)
class Plan(ShownPlan):
    """A solution of a planning problem, as plain data.

    Parameters
    ----------
    problem
        Name of the problem.
    runs
        One entry per run of an operator.
    transfers
        The transfers, which make all copies that runs do not make.
    fingerprint
        Fingerprint of the problem, if known.
    parent
        Fingerprint of the problem that its problem is a variant of, if it is one.
    objective, value
        The claimed objective and value; the checker recomputes the value.
    planner
        Name of the planner.
    """

    problem: str
    runs: tuple[OperatorRun, ...]
    transfers: tuple[Transfer, ...] = ()
    fingerprint: str | None = None
    objective: str | None = None
    value: int | None = None
    planner: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    parent: str | None = None

    @cached_property
    def _runs(self) -> dict[str, OperatorRun]:
        return {run.operator: run for run in reversed(self.runs)}

    def run(self, operator: str) -> OperatorRun:
        """Return the first listed run of an operator; ``KeyError`` if the plan has none."""
        return self._runs[operator]

    @property
    def has_schedule(self) -> bool:
        """Whether every run and transfer has its times."""
        tasks: list[OperatorRun | Transfer] = [*self.runs, *self.transfers]
        return all(task.start_ticks is not None and task.stop_ticks is not None for task in tasks)

    @property
    def stop_ticks(self) -> int:
        """Latest stop of any run; 0 for an empty plan or one without a schedule."""
        return max((run.stop_ticks or 0 for run in self.runs), default=0)

    def claimed(self, objective: str, value: int, planner: str | None = None) -> Plan:
        """Return the plan with a claimed objective and value."""
        return replace(self, objective=objective, value=value, planner=planner or self.planner)


@runtime_checkable
class AnyPlan(Protocol):
    """Members of plans of every kind: their value and planner."""

    value: int | None
    planner: str
