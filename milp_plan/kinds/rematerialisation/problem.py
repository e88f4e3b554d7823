"""Rematerialisation: memory bought with time, by computing results again, on one device.

The problem of Checkmate (Jain et al., MLSys 2020): operators run in a fixed order, outputs may be
forgotten and made again. The law is in ``docs/laws.md``.
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

MOST = 2**60
"""Largest sum of costs, and of bytes: sums stay within 64 bits."""


UNNAMED = Units("unspecified")
"""Of sources that name no unit of time."""


class RematerialisationObjective(StrEnum):
    """What a plan of rematerialisation minimises."""

    ADDED_TIME = "added_time"
    """Time of all runs, less the time of running each operator once."""
    PEAK_MEMORY = "peak_memory"
    """Most bytes held at once."""
    ADDED_ENERGY = "added_energy"
    """Energy of all runs and transfers, less that of running each operator once."""


@dataclass(frozen=True, slots=True)
class Computation:
    """An operator: what it costs, what it leaves, what it reads.

    Parameters
    ----------
    name
        Unique in its problem.
    cost
        Ticks that each of its runs takes.
    size
        Bytes of its output.
    inputs
        Names of the operators before it whose outputs it reads.
    again
        Whether it may run more than once.
    energy
        Of each of its runs, in whatever unit the source has.
    """

    name: str
    cost: int
    size: int
    inputs: tuple[str, ...] = ()
    again: bool = True
    energy: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """Memory beside the device; what is written there once can be read back any number of times.

    Parameters
    ----------
    memory
        Bytes; ``None`` without a limit.
    latency
        Ticks that each transfer takes at least.
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
        """Ticks of a transfer of a number of bytes, one way."""
        return self.latency - (-size * self.ticks // self.amount)


@dataclass(frozen=True)
class RematerialisationProblem(CheckedProblem):
    """Run all operators within a budget of memory, with as little added time as can be.

    Or, with a limit on added time, in as little memory as can be.

    Parameters
    ----------
    name
        Name of the instance.
    computations
        In the order of their first runs; each comes behind its inputs.
    budget
        Bytes that may be held at once; ``None`` without a limit.
    units
        What ticks and bytes stand for.
    provenance
        Where the numbers come from; does not change the problem.
    objective
        What is minimised.
    added_limit
        Ticks that may be added at most, where something else is minimised; ``None``: any number.
    host
        Where results may wait; ``None`` without one.

    Raises
    ------
    InputError
        With every finding at once.
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
        """Place of each operator in the order, by name."""
        return {entry.name: place for place, entry in enumerate(self.computations)}

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """Places of the inputs of each operator."""
        return tuple(
            tuple(sorted(self.numbers[name] for name in entry.inputs))
            for entry in self.computations
        )

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Places of those that read each operator's output."""
        found: list[list[int]] = [[] for _ in self.computations]
        for reader, inputs in enumerate(self.inputs):
            for place in inputs:
                found[place].append(reader)
        return tuple(tuple(row) for row in found)

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
        """What a run of each operator, and a transfer of its output, add to the objective."""
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
        """Bytes that any run of each operator holds at least: its output and its inputs."""
        return tuple(
            entry.size + sum(self.computations[place].size for place in self.inputs[number])
            for number, entry in enumerate(self.computations)
        )

    def within(self, budget: Fraction, *, fraction: bool) -> RematerialisationProblem:
        """Return the problem with another budget.

        Parameters
        ----------
        budget
            Bytes, of which the whole ones count; or the part of :attr:`peak`, rounded up.
        fraction
            Whether it is a part.
        """
        number = ceil(budget * self.peak) if fraction else floor(budget)
        return replace(self, budget=number)

    def least_memory(self, share: Fraction | None = None) -> RematerialisationProblem:
        """Return the problem whose peak memory is minimised.

        Parameters
        ----------
        share
            Time that may be added at most, as a part of :attr:`total_cost`; what the problem says
            unless it is given.
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
            expected, remedy = "added_time or added_energy", "ask for one of these, or for no host"
            yield Finding("objective", "peak_memory with a host", expected, remedy)
        for what, total in (
            ("energies", sum(entry.energy for entry in self.computations)),
            ("costs", sum(entry.cost for entry in self.computations)),
            ("bytes", sum(entry.size for entry in self.computations)),
        ):
            if total > MOST:
                found = f"{what} of {total} together"
                yield Finding("operators", found, f"at most {MOST}", f"scale all {what} down")


def _number_findings(entry: Computation) -> Iterator[Finding]:
    amounts = (("cost", entry.cost), ("bytes", entry.size), ("energy", entry.energy))
    for what, number in amounts:
        yield from below_findings(f"operator {entry.name!r}, {what}", number, 0)


def _host_findings(host: Host | None) -> Iterator[Finding]:
    if host is None:
        return
    amounts = (("memory", host.memory or 0), ("latency", host.latency), ("power", host.power))
    least = [(what, number, 0) for what, number in amounts]
    least += [("amount", host.amount, 1), ("ticks", host.ticks, 0)]
    for what, number, at_least in least:
        if not at_least <= number <= MOST:
            expected = f"{at_least} to {MOST}"
            yield Finding(f"host, {what}", str(number), expected, "correct it")


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
    """What runs, one after the other; everything else follows.

    Parameters
    ----------
    problem
        Name of the problem it answers.
    runs
        Names of operators, each at least once.
    reloads
        Numbers of runs (from 0) that do not compute, but read what the host has.
    fingerprint, parent, value, planner
        What its maker says about it; the checker recomputes the value. ``parent`` is what the
        variants of its problem have in common.
    """

    problem: str
    runs: tuple[str, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    reloads: tuple[int, ...] = ()
    parent: str | None = None
