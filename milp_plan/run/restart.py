"""Turns a user's plan into a start: its decisions are used, times and values recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from milp_plan.core import Finding, InputError, Verdict
from milp_plan.io.defects import nearest

from .kind import Kind

P = TypeVar("P")
S = TypeVar("S")

MAX_LISTED = 5
"""Maximum number of names that a finding lists."""


@dataclass(frozen=True)
class Start(Generic[S]):
    """A start made from a user's plan.

    Parameters
    ----------
    plan
        A valid plan; ``None`` where none could be made.
    note
        What was changed, in a sentence; empty where the plan was valid as it was.
    """

    plan: S | None
    note: str


def make_start(kind: Kind[P, S], problem: P, plan: S) -> Start[S]:
    """Return a valid plan with the decisions of a plan, as far as the problem admits them.

    Raises
    ------
    InputError
        The plan names parts that the problem does not have, or leaves out some.
    """
    verdict = kind.verify(problem, plan)
    if verdict.ok:
        return Start(plan, "")
    findings = list(_name_mismatches(kind, problem, plan))
    if findings:
        raise InputError(findings)
    first = None
    for restart in kind.restarts(problem, plan):
        second = kind.verify(problem, restart.plan)
        if second.ok:
            return Start(restart.plan, restart.note)
        first = first or second
    return Start(None, f"not used: {_why(first or verdict)}")


def _why(verdict: Verdict) -> str:
    return "; ".join(str(violation) for violation in verdict.violations[:2])


def _name_mismatches(kind: Kind[P, S], problem: P, plan: S) -> Iterator[Finding]:
    """Report names of the plan that the problem does not have, and those that the plan lacks."""
    known, named = kind.part_names(problem), kind.names_in_plan(plan)
    if known is None or named is None:
        return
    noun = kind.reasons().noun
    unknown = [name for name in dict.fromkeys(named) if name not in set(known)]
    missing = [name for name in dict.fromkeys(known) if name not in set(named)]
    if unknown:
        remedy = nearest(unknown[0], missing or known, "rename them in the plan, or plan again")
        found = f"{_listed(unknown)}, unknown"
        yield Finding("start plan", found, f"{noun} of the problem", remedy)
    if missing and not kind.partial:
        remedy = "add them to the plan, or plan again"
        yield Finding("start plan", f"no {_listed(missing)}", f"all {noun} of the problem", remedy)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(repr(name) for name in names[:MAX_LISTED]) + more
