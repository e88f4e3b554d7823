"""Goals: objective and serial law that users request in place of those of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from milp_plan.core import (
    Contiguity,
    Finding,
    InputError,
    MemoryLaw,
    Objective,
    Passes,
    PlanningProblem,
    SerialLaw,
)


@dataclass(frozen=True)
class Goal:
    """An objective, and options of the serial law.

    Parameters
    ----------
    objective
        The objective; ``None`` for that of the file.
    contiguous
        Bottleneck: one consecutive part of the forward pass per device (``Contiguity.CHAIN``).
    separate_passes
        Bottleneck: largest forward load plus largest backward load (``Passes.SEPARATE``).
    calls
        Latency: invocations per paying device, 1 unless given.
    """

    objective: Objective | None = None
    contiguous: bool = False
    separate_passes: bool = False
    calls: int | None = None

    @property
    def about_serial_law(self) -> bool:
        """Whether it requests something that only the serial law has."""
        return (
            self.contiguous
            or self.separate_passes
            or self.calls is not None
            or self.objective is Objective.LATENCY
        )

    def findings(self) -> Iterator[Finding]:
        """Report options that do not fit together."""
        if self.calls is not None and self.objective is not Objective.LATENCY:
            yield Finding("--calls", str(self.calls), "objective latency", "add it, or leave out")
        for flag, given in (
            ("--contiguous", self.contiguous),
            ("--separate-passes", self.separate_passes),
        ):
            if given and self.objective not in (None, Objective.BOTTLENECK):
                found = f"objective {self.objective}"
                yield Finding(flag, found, "objective bottleneck", "leave one of them out")

    def law(self, payers: tuple[str, ...]) -> SerialLaw:
        """Return the serial law that the goal requests."""
        latency = self.objective is Objective.LATENCY
        return SerialLaw(
            payers,
            Contiguity.CHAIN if self.contiguous else Contiguity.FREE,
            Passes.SEPARATE if self.separate_passes else Passes.JOINT,
            (self.calls or 1) if latency else None,
        )


def pursue(problem: PlanningProblem, goal: Goal) -> PlanningProblem:
    """Return a problem with another goal.

    Raises
    ------
    InputError
        The goal is about the serial law, and the file does not say which devices pay for
        transfers; or its wishes do not go together.
    """
    findings = list(goal.findings())
    if goal.about_serial_law and problem.serial is None:
        found = "no member 'serial': the file does not say which devices pay for transfers"
        expected = "an instance under the serial law, such as a dnn-partitioning file"
        findings.append(Finding("serial", found, expected, "add the member, or ask for less"))
    if findings:
        raise InputError(findings)
    if goal == Goal():
        return problem
    objective = goal.objective or problem.objective
    if problem.serial is None:
        return problem.variant(objective=objective)
    if objective not in (Objective.BOTTLENECK, Objective.LATENCY):
        return problem.variant(objective=objective, serial=None, memory_law=MemoryLaw.INSTANT)
    law = replace(goal, objective=objective).law(problem.serial.payers)
    return problem.variant(objective=objective, serial=law)
