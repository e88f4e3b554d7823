"""A given plan as a start: its decisions are used, times and values are computed anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from milp_plan.core import Finding, InputError, Verdict
from milp_plan.io.defects import nearest

from .kind import Kind

P = TypeVar("P")
S = TypeVar("S")

MOST = 5
"""Names that a finding lists."""


@dataclass(frozen=True)
class Start(Generic[S]):
    """A start made of a given plan.

    Parameters
    ----------
    plan
        Valid; ``None`` where nothing valid could be made of it.
    said
        What was done, in a sentence; empty where it was valid as it was.
    """

    plan: S | None
    said: str


def started(kind: Kind[P, S], problem: P, plan: S) -> Start[S]:
    """Return a valid plan that decides what a plan decides, as far as the problem admits it.

    Raises
    ------
    InputError
        It names what the problem does not have, or leaves out something.
    """
    verdict = kind.verify(problem, plan)
    if verdict.ok:
        return Start(plan, "")
    findings = list(_strangers(kind, problem, plan))
    if findings:
        raise InputError(findings)
    tried = None
    for restart in kind.restarts(problem, plan):
        found = kind.verify(problem, restart.plan)
        if found.ok:
            return Start(restart.plan, restart.said)
        tried = tried or found
    return Start(None, f"not used: {_why(tried or verdict)}")


def _why(verdict: Verdict) -> str:
    return "; ".join(str(violation) for violation in verdict.violations[:2])


def _strangers(kind: Kind[P, S], problem: P, plan: S) -> Iterator[Finding]:
    """List names of the plan that the problem does not have, and those that the plan lacks."""
    known, named = kind.named(problem), kind.named_by(plan)
    if known is None or named is None:
        return
    noun = kind.reasons().noun
    strange = [name for name in dict.fromkeys(named) if name not in set(known)]
    missing = [name for name in dict.fromkeys(known) if name not in set(named)]
    if strange:
        remedy = nearest(strange[0], missing or known, "rename them in the plan, or plan anew")
        found = f"{_listed(strange)}, unknown"
        yield Finding("start plan", found, f"{noun} of the problem", remedy)
    if missing and not kind.partial:
        remedy = "add them to the plan, or plan anew"
        yield Finding("start plan", f"no {_listed(missing)}", f"all {noun} of the problem", remedy)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return ", ".join(repr(name) for name in names[:MOST]) + more
