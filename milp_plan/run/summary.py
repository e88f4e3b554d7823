"""Lines and warnings that summarise an outcome, in a terminal and in a notebook."""

from __future__ import annotations

from typing import Any

from milp_plan.backends import Stop
from milp_plan.core.amounts import DASH, seconds_text, share_text

from .model import REFUSED, UNREAD
from .outcome import Outcome


def facts(outcome: Outcome[Any, Any]) -> list[list[str]]:
    """Return the rows of a summary: label and text."""
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
    texts = []
    if outcome.disputed and outcome.disputed_reason not in outcome.defects:
        because = outcome.disputed_reason
        own = because.startswith((REFUSED, UNREAD))
        texts.append(because if own else f"the checker disputes the solver: {because}")
    if outcome.record.get("startless"):
        texts.append(f"the model had no start: {outcome.record['startless']}")
    alone = outcome.bound is None or outcome.record["settings"]["only"]
    unsettled = not outcome.proved and outcome.infeasible_reason is None
    if outcome.unproved_reason and alone and unsettled:
        what = "that there is no plan" if outcome.plan is None else "optimality"
        texts.append(f"{what} is not proved: {outcome.unproved_reason}")
    kept = "no plan was found" if outcome.plan is None else "the best plan until then was kept"
    texts += [f"{defect}; {kept}" for defect in outcome.defects]
    if outcome.record["settings"].get("target") is not None:
        rows = outcome.record.get("coarsening") or ()
        excess = [row["excess"] for row in rows if row.get("excess")]
        texts += [
            f"{reason}: {outcome.record['coarse_operators']} are planned" for reason in excess
        ]
    if outcome.stop is Stop.INTERRUPTED:
        result = (
            "there was no plan yet" if outcome.plan is None else "the best plan so far was kept"
        )
        texts.append(f"interrupted; {result}")
    return texts


def _size(outcome: Outcome[Any, Any]) -> list[str]:
    """Return the name of the parts, their number, and their number after coarsening."""
    record = outcome.record
    name, before = next(iter(outcome.kind.summary(outcome.problem).items()))
    after = record.get(f"coarse_{name}")
    if after is None or after == before:
        return [name, f"{before:,}"]
    return [name, f"{before:,}, {after:,} after coarsening"]
