"""Recomputed forward passes of a pipeline plan as checkpointed stages of torch.

The schedule of ``torch.distributed.pipelining`` has no action for a forward pass that runs again.
A module under ``torch.utils.checkpoint`` does it within the backward pass, from its stage's saved
input. So a plan can be written if each second forward pass runs on the same device,
directly before its own joint backward pass, from an input that is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from milp_plan.core import Finding, InputError, OperatorRun, Plan, PlanningProblem

Part = tuple[str, str, int]
"""Block, letter of torch's action, micro-batch."""


def runs_once(
    problem: PlanningProblem, plan: Plan, parts: Mapping[str, Part]
) -> tuple[list[OperatorRun], list[Part]]:
    """Return runs without the second forward passes, and these passes.

    Parameters
    ----------
    problem, plan
        A plan with a schedule that the checker accepts, with each stage on one device.
    parts
        Block, letter and micro-batch of each operator.

    Raises
    ------
    InputError
        A run that torch cannot repeat there.
    """
    order = {name: at for at, name in enumerate(problem.graph.topological_order)}
    rows: dict[tuple[str, ...], list[OperatorRun]] = {}
    for run in sorted(
        plan.runs, key=lambda r: (r.start_ticks or 0, r.stop_ticks or 0, order[r.operator])
    ):
        rows.setdefault(run.devices, []).append(run)
    seen: set[str] = set()
    once: list[OperatorRun] = []
    again: list[Part] = []
    for row in rows.values():
        for at, run in enumerate(row):
            if run.operator not in seen:
                seen.add(run.operator)
                once.append(run)
                continue
            block, letter, batch = parts[run.operator]
            if letter != "F":
                _refuse(run, "a second run", "one run; forward passes alone run again")
            after = parts[row[at + 1].operator] if at + 1 < len(row) else None
            if after != (block, "B", batch):
                found = "nothing" if after is None else repr(row[at + 1].operator)
                _refuse(run, f"a second run, then {found}", "its own joint backward pass next")
            again.append((block, letter, batch))
    if again:
        _refuse_sent_again(plan)
    return once, again


def _refuse_sent_again(plan: Plan) -> None:
    sent: set[tuple[str, tuple[str, ...]]] = set()
    for transfer in plan.transfers:
        key = (transfer.value, transfer.target)
        if key in sent:
            found, expected = "sent twice", "sent once; torch sends what the action made"
            remedy = "plan without --recompute"
            raise InputError([Finding(f"value {transfer.value!r}", found, expected, remedy)])
        sent.add(key)


def _refuse(run: OperatorRun, found: str, expected: str) -> NoReturn:
    text = f"{expected}; torch repeats a forward pass within the backward pass of its stage alone"
    remedy = "plan without --recompute, or with --joint-backward"
    raise InputError([Finding(f"operator {run.operator!r}", found, text, remedy)])
