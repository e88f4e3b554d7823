"""Local updates: stages of a pipeline behind which gradients stop, for the shortest step.

After Laskin et al., "Parallel training of deep networks with local updates" (arXiv 2012.03837).
The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import Finding, below_findings, name_findings
from milp_plan.core.quantity import Units
from milp_plan.core.shown import ShownPlan

MAX_TOTAL = 2**60
"""Largest sum of all times, ticks: sums stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline, on a device of its own.

    Parameters
    ----------
    name
        Unique in its problem.
    forward, backward
        Ticks of one micro-batch.
    head
        Ticks of the auxiliary head of the stage where gradients stop behind it.
    price
        Share of the budget that is used where gradients stop behind it.
    most
        Number of micro-batches whose activations fit into its memory; ``None`` for all.
    """

    name: str
    forward: int
    backward: int
    head: int = 0
    price: int = 1
    most: int | None = None


@dataclass(frozen=True)
class LocalUpdatesProblem(CheckedProblem):
    """Stop gradients behind some stages of a pipeline, so that a step is as short as possible.

    Parameters
    ----------
    name
        Name of the instance.
    stages
        Stages in a line, at least one.
    micro_batches
        Number per step.
    transfer
        Ticks from a stage to the next one or back, during which devices are free.
    budget
        Largest sum of prices; ``None`` without a limit.
    units
        Unit of a tick.
    provenance
        Source of the numbers; does not change the problem.

    Raises
    ------
    InputError
        The problem has defects; the error lists all of them.
    """

    name: str
    stages: tuple[Stage, ...]
    micro_batches: int
    transfer: int = 0
    budget: int | None = None
    units: Units = field(default_factory=Units)
    provenance: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> Mapping[str, int]:
        """Positions of stages by name."""
        return {stage.name: place for place, stage in enumerate(self.stages)}

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Names of the stages with one behind them."""
        return tuple(stage.name for stage in self.stages[:-1])

    @property
    def serial(self) -> int:
        """Ticks of all tasks and transfers one after the other: an upper bound on a step."""
        each = sum(stage.forward + stage.backward + stage.head for stage in self.stages)
        return self.micro_batches * (each + 2 * self.transfer * len(self.stages))

    def price(self, cuts: Collection[str]) -> int:
        """Return the sum of prices of boundaries; other names cost nothing."""
        return sum(stage.price for stage in self.stages[:-1] if stage.name in cuts)

    def ahead(self, place: int, end: int) -> int:
        """Return the micro-batches that a stage holds in a chunk that ends with stage ``end``."""
        return min(self.micro_batches, end - place + 1)

    def fits(self, place: int, end: int) -> bool:
        """Return whether a stage has enough memory in a chunk that ends with stage ``end``."""
        most = self.stages[place].most
        return most is None or self.ahead(place, end) <= most

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "local updates", self
        yield from ((f"stage {stage.name!r}", stage) for stage in self.stages)

    def _shared(self) -> object:
        rows = [(s.name, s.forward, s.backward, s.head, s.price) for s in self.stages]
        units = (self.units.time, self.units.time_scale)
        return "local updates", self.name, rows, self.micro_batches, self.transfer, units

    def _content(self) -> object:
        rows = [(s.name, s.forward, s.backward, s.head, s.price, s.most) for s in self.stages]
        units = (self.units.time, self.units.time_scale)
        return self.name, rows, self.micro_batches, self.transfer, self.budget, units

    def _findings(self) -> Iterator[Finding]:
        if not self.stages:
            yield Finding("stages", "none", "at least one", "add a stage")
        yield from name_findings("stage", (stage.name for stage in self.stages))
        yield from below_findings("micro_batches", self.micro_batches, 1)
        yield from below_findings("transfer", self.transfer, 0)
        yield from below_findings("budget", self.budget or 0, 0)
        for stage in self.stages:
            amounts = {n: getattr(stage, n) for n in ("forward", "backward", "head", "price")}
            for label, amount in amounts.items():
                least = 1 if label in ("forward", "backward") else 0
                yield from below_findings(f"stage {stage.name!r}, {label}", amount, least)
            if stage.most is not None:
                yield from below_findings(f"stage {stage.name!r}, most", stage.most, 1)
        if self.stages and self.serial > MAX_TOTAL:
            expected = f"at most {MAX_TOTAL} ticks"
            yield Finding("stages", "more time together", expected, "correct times")


@dataclass(frozen=True)
class LocalUpdatesPlan(ShownPlan):
    """Stages behind which gradients stop.

    Parameters
    ----------
    problem
        Name of the problem.
    cuts
        Names of the stages behind which they stop, in any order.
    fingerprint, parent, value, planner
        Claims of the planner; the checker recomputes the value. ``parent`` is the common
        fingerprint of the variants of its problem.
    """

    problem: str
    cuts: tuple[str, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    parent: str | None = None
