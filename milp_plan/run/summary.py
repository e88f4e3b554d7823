"""What an outcome says to people, in a terminal and in a notebook."""

from __future__ import annotations

from typing import Any

from milp_plan.backends import Stop
from milp_plan.core.amounts import DASH, seconds_text, share_text

from .model import REFUSED, UNREAD
from .outcome import Outcome


def facts(outcome: Outcome[Any, Any]) -> list[list[str]]:
    """Label and text of what a reader wants to know next."""
    bound = DASH
    if outcome.bound is not None:
        bound = f"{outcome.measure.text(outcome.bound)} by {outcome.bound_name}"
    start, idle = outcome.record.get("start"), outcome.record.get("not_asked")
    return [
        ["scope", str(outcome.scope)],
        *([] if start is None else [["start", start]]),
        ["bound", bound],
        ["gap", share_text(outcome.gap)],
        ["check", outcome.record["verdict"]],
        ["planner", outcome.planner or DASH],
        *([] if idle is None else [["formulation", idle]]),
        ["strategy", outcome.record["strategy"]],
        ["stop", f"{outcome.stop} after {seconds_text(outcome.seconds)}"],
        _size(outcome),
    ]


def warnings(outcome: Outcome[Any, Any]) -> list[str]:
    """Return what a reader of the result must not miss."""
    found = []
    if outcome.disputed and outcome.disputed_because not in outcome.defects:
        because = outcome.disputed_because
        own = because.startswith((REFUSED, UNREAD))
        found.append(because if own else f"the checker disputes the solver: {because}")
    if outcome.record.get("startless"):
        found.append(f"the model had no start: {outcome.record['startless']}")
    alone = outcome.bound is None or outcome.record["settings"]["only"]
    unsettled = not outcome.proved and outcome.infeasible_because is None
    if outcome.unproved_because and alone and unsettled:
        what = "that there is no plan" if outcome.plan is None else "optimality"
        found.append(f"{what} is not proved: {outcome.unproved_because}")
    kept = "no plan was found" if outcome.plan is None else "the best plan until then was kept"
    found += [f"{defect}; {kept}" for defect in outcome.defects]
    if outcome.record["settings"].get("target") is not None:
        rows = outcome.record.get("coarsening") or ()
        excess = [row["excess"] for row in rows if row.get("excess")]
        found += [
            f"{reason}: {outcome.record['coarse_operators']} are planned" for reason in excess
        ]
    if outcome.stop is Stop.INTERRUPTED:
        kept = "there was no plan yet" if outcome.plan is None else "the best plan so far was kept"
        found.append(f"interrupted; {kept}")
    return found


def _size(outcome: Outcome[Any, Any]) -> list[str]:
    """What the problem has most of, how many, and how many are left after coarsening."""
    record = outcome.record
    name, before = next(iter(outcome.kind.about(outcome.problem).items()))
    after = record.get(f"coarse_{name}")
    if after is None or after == before:
        return [name, f"{before:,}"]
    return [name, f"{before:,}, {after:,} after coarsening"]
