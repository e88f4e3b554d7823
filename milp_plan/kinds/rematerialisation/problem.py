"""Rematerialisation: less memory for more time, by recomputing results, on one device.

The problem of Checkmate (Jain et al., MLSys 2020): operators run in a fixed order, outputs may be
dropped and recomputed. The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil, floor
from typing import Any

from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import Finding, below_findings, name_findings
from milp_plan.core.quantity import Units
from milp_plan.core.shown import ShownPlan

MAX_TOTAL = 2**60
"""Largest sum of costs, and of bytes: sums stay within 64 bits."""


UNNAMED = Units("unspecified")
"""Units of sources that name no unit of time."""


class RematerialisationObjective(StrEnum):
    """The objective of a plan of rematerialisation."""

    ADDED_TIME = "added_time"
    """Time of all runs, less the time of running each operator once."""
    PEAK_MEMORY = "peak_memory"
    """Most bytes held at once."""
    ADDED_ENERGY = "added_energy"
    """Energy of all runs and transfers, less that of running each operator once."""


@dataclass(frozen=True, slots=True)
class Computation:
    """An operator: its cost, its output, its inputs.

    Parameters
    ----------
    name
        Unique in its problem.
    cost
        Ticks of each of its runs.
    size
        Bytes of its output.
    inputs
        Names of the operators before it whose outputs it reads.
    again
        Whether it may run more than once.
    energy
        Energy of each of its runs, in the unit of the source.
    """

    name: str
    cost: int
    size: int
    inputs: tuple[str, ...] = ()
    again: bool = True
    energy: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """Memory outside of the device; what is written there once can be read back repeatedly.

    Parameters
    ----------
    memory
        Bytes; ``None`` without a limit.
    latency
        Least ticks of a transfer.
    amount, ticks
        Bytes that are transferred in ``ticks`` beyond that.
    power
        Energy of a tick of a transfer.
    """

    memory: int | None
    latency: int
    amount: int
    ticks: int
    power: int = 0

    def transfer(self, size: int) -> int:
        """Return the ticks of a transfer of a number of bytes, one way."""
        return self.latency - (-size * self.ticks // self.amount)


@dataclass(frozen=True)
class RematerialisationProblem(CheckedProblem):
    """Run all operators within a budget of memory, with as little added time as possible.

    Or, with a limit on added time, in as little memory as possible.

    Parameters
    ----------
    name
        Name of the instance.
    computations
        Operators in the order of their first runs; each comes after its inputs.
    budget
        Bytes that may be held at once; ``None`` without a limit.
    units
        Units of ticks and bytes.
    provenance
        Source of the numbers; does not change the problem.
    objective
        The objective.
    added_limit
        Limit of added ticks where something else is minimised; ``None`` without a limit.
    host
        Host on which results may wait; ``None`` without one.

    Raises
    ------
    InputError
        The problem has defects; the error lists all of them.
    """

    name: str
    computations: tuple[Computation, ...]
    budget: int | None = None
    units: Units = UNNAMED
    provenance: Mapping[str, str] = field(default_factory=dict)
    objective: RematerialisationObjective = RematerialisationObjective.ADDED_TIME
    added_limit: int | None = None
    host: Host | None = None

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Position of each operator in the order, by name."""
        return {entry.name: place for place, entry in enumerate(self.computations)}

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the inputs of each operator."""
        return tuple(
            tuple(sorted(self.numbers[name] for name in entry.inputs))
            for entry in self.computations
        )

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the readers of each operator's output."""
        readers: list[list[int]] = [[] for _ in self.computations]
        for reader, inputs in enumerate(self.inputs):
            for place in inputs:
                readers[place].append(reader)
        return tuple(tuple(row) for row in readers)

    @cached_property
    def total_cost(self) -> int:
        """Ticks of running each operator once."""
        return sum(entry.cost for entry in self.computations)

    @cached_property
    def transfers(self) -> tuple[int, ...]:
        """Ticks of each output to the host, or back."""
        host = self.host
        return tuple(0 if host is None else host.transfer(e.size) for e in self.computations)

    @cached_property
    def prices(self) -> tuple[tuple[int, int], ...]:
        """Price of a run of each operator, and of a transfer of its output, in the objective."""
        if self.objective is not RematerialisationObjective.ADDED_ENERGY:
            runs = [entry.cost for entry in self.computations]
            return tuple(zip(runs, self.transfers, strict=True))
        power = 0 if self.host is None else self.host.power
        return tuple(
            (entry.energy, power * ticks)
            for entry, ticks in zip(self.computations, self.transfers, strict=True)
        )

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Bytes held during each run where every operator runs once."""
        changes = [0] * (len(self.computations) + 1)
        for place, entry in enumerate(self.computations):
            changes[place] += entry.size
            changes[max((place, *self.readers[place])) + 1] -= entry.size
        return tuple(accumulate(changes[:-1]))

    @cached_property
    def peak(self) -> int:
        """Most bytes held at once where every operator runs once."""
        return max(self.held)

    @cached_property
    def floors(self) -> tuple[int, ...]:
        """Least bytes during any run of each operator: its output and its inputs."""
        return tuple(
            entry.size + sum(self.computations[place].size for place in self.inputs[number])
            for number, entry in enumerate(self.computations)
        )

    def within(self, budget: Fraction, *, fraction: bool) -> RematerialisationProblem:
        """Return the problem with another budget.

        Parameters
        ----------
        budget
            Bytes, rounded down; or a share of :attr:`peak`, rounded up.
        fraction
            Whether it is a share.
        """
        number = ceil(budget * self.peak) if fraction else floor(budget)
        return replace(self, budget=number)

    def least_memory(self, share: Fraction | None = None) -> RematerialisationProblem:
        """Return the problem whose peak memory is minimised.

        Parameters
        ----------
        share
            Limit of added time, as a share of :attr:`total_cost`; by default the problem's own.
        """
        limit = self.added_limit if share is None else floor(share * self.total_cost)
        return replace(self, objective=RematerialisationObjective.PEAK_MEMORY, added_limit=limit)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "problem", self
        if self.host is not None:
            yield "host", self.host
        yield from ((f"operator {entry.name!r}", entry) for entry in self.computations)

    def _rows(self) -> list[object]:
        return [(c.name, c.cost, c.size, sorted(c.inputs), c.again) for c in self.computations]

    def _shared(self) -> object:
        return "rematerialisation", self.name, self._rows()

    def _content(self) -> object:
        content: tuple[object, ...] = (self.name, self.budget, self._rows())
        if self.objective is not RematerialisationObjective.ADDED_TIME:
            content += (self.objective.value, self.added_limit)
            content += ([entry.energy for entry in self.computations],)
        if self.host is not None:
            content += (self.host,)
        return content

    def _findings(self) -> Iterator[Finding]:
        if not self.computations:
            yield Finding("operators", "none", "at least one", "add an operator")
        yield from name_findings("operator", (entry.name for entry in self.computations))
        known: set[str] = set()
        every = {entry.name for entry in self.computations}
        for entry in self.computations:
            yield from _number_findings(entry)
            yield from _input_findings(entry, known, every)
            known.add(entry.name)
        yield from below_findings("budget", self.budget or 0, 0)
        yield from below_findings("limit of added time", self.added_limit or 0, 0)
        least_time = self.objective is RematerialisationObjective.ADDED_TIME
        if self.added_limit is not None and least_time:
            expected = "another objective"
            found, remedy = "the objective added_time", "leave the limit out, or ask for that"
            yield Finding("limit of added time", found, expected, remedy)
        yield from _host_findings(self.host)
        if self.host is not None and self.objective is RematerialisationObjective.PEAK_MEMORY:
            expected, remedy = "added_time or added_energy", "choose one of these, or no host"
            yield Finding("objective", "peak_memory with a host", expected, remedy)
        for what, total in (
            ("energies", sum(entry.energy for entry in self.computations)),
            ("costs", sum(entry.cost for entry in self.computations)),
            ("bytes", sum(entry.size for entry in self.computations)),
        ):
            if total > MAX_TOTAL:
                found = f"{what} of {total} together"
                yield Finding("operators", found, f"at most {MAX_TOTAL}", f"scale all {what} down")


def _number_findings(entry: Computation) -> Iterator[Finding]:
    amounts = (("cost", entry.cost), ("bytes", entry.size), ("energy", entry.energy))
    for label, number in amounts:
        yield from below_findings(f"operator {entry.name!r}, {label}", number, 0)


def _host_findings(host: Host | None) -> Iterator[Finding]:
    if host is None:
        return
    amounts = (("memory", host.memory or 0), ("latency", host.latency), ("power", host.power))
    least = [(label, number, 0) for label, number in amounts]
    least += [("amount", host.amount, 1), ("ticks", host.ticks, 0)]
    for label, number, at_least in least:
        if not at_least <= number <= MAX_TOTAL:
            expected = f"{at_least} to {MAX_TOTAL}"
            yield Finding(f"host, {label}", str(number), expected, "correct it")


def _input_findings(entry: Computation, known: set[str], every: set[str]) -> Iterator[Finding]:
    where = f"operator {entry.name!r}, inputs"
    for name, count in Counter(entry.inputs).items():
        if count > 1:
            yield Finding(where, f"{name!r} {count} times", "once", "leave out the others")
        if name not in every:
            yield Finding(where, repr(name), "an operator of the problem", "correct the name")
        elif name not in known:
            expected, remedy = "operators before it", "put the operators in a topological order"
            yield Finding(where, f"{name!r}, which does not come before it", expected, remedy)


@dataclass(frozen=True)
class RematerialisationPlan(ShownPlan):
    """The runs, one after the other; everything else follows.

    Parameters
    ----------
    problem
        Name of the problem.
    runs
        Names of operators, each at least once.
    reloads
        Numbers of runs (from 0) that read from the host instead of computing.
    fingerprint, parent, value, planner
        Claims of the planner; the checker recomputes the value. ``parent`` is the common
        fingerprint of the variants of its problem.
    """

    problem: str
    runs: tuple[str, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    reloads: tuple[int, ...] = ()
    parent: str | None = None
