"""Activation checkpointing: blocks drop activations and recompute them in the backward pass.

A block's forward operator leaves some of its values without bytes (the layout ``gone``); its
backward operator reads them in that layout, recomputes them first, and takes longer. No change
leads from one layout to the other, so both operators of a block agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from milp_plan.core import Finding, InputError
from milp_plan.io.capture_wire import Capture

from .merge import Part
from .passes import FORWARD
from .record import tensors_read
from .work import operator_of

KEEP = "keep"
POLICIES = ("attention", "full")
"""Values that a block can drop: all but the results of attention, or all."""

GONE = "gone"
"""Layout of a value that is recomputed."""


def require_policies(policies: Sequence[str], granularity: str) -> None:
    """Refuse policies that do not exist, and operators that are no blocks.

    Raises
    ------
    InputError
        A policy does not exist, or operators are no blocks; the error lists all of these.
    """
    findings = [
        Finding("recompute", repr(policy), f"one of {', '.join(POLICIES)}", "correct it")
        for policy in policies
        if policy not in POLICIES
    ]
    if policies and granularity != "block":
        remedy = "use granularity block"
        findings.append(Finding("recompute", repr(granularity), "operators by block", remedy))
    if findings:
        raise InputError(findings)


@dataclass(frozen=True)
class Again:
    """Values that a block drops and kernels that it recomputes under a policy.

    Parameters
    ----------
    policy
        One of :data:`POLICIES`.
    dropped
        Storages that the forward operator drops before the backward operator.
    redone
        Kernels that the backward operator runs first, in order.
    reads
        Storages from outside that these kernels read.
    """

    policy: str
    dropped: frozenset[int]
    redone: tuple[int, ...]
    reads: frozenset[int]


def nothing_to_forget() -> InputError:
    """Return the finding of a model in which no block could recompute anything."""
    found, expected = "no block with values to forget", "numbered modules, such as layers.0"
    remedy = "leave --recompute out, or put the layers into modules of a torch.nn.ModuleList"
    return InputError([Finding("recompute", found, expected, remedy)])


def blocks_of(parts: Sequence[Part]) -> dict[int, int]:
    """Return forward part -> backward part, of blocks that have one of each."""
    members: dict[str, tuple[list[int], list[int]]] = {}
    for number, part in enumerate(parts):
        if part.label.rpartition(".")[2].isdecimal():
            sides = members.setdefault(part.label, ([], []))
            sides[part.kind != FORWARD].append(number)
    return {
        forward[0]: backward[0]
        for forward, backward in members.values()
        if len(forward) == len(backward) == 1
    }


def again(
    capture: Capture,
    parts: tuple[Part, Part],
    policy: str,
    readers: Mapping[int, Sequence[int]],
    made: Mapping[int, int],
) -> Again:
    """Return the values that a block drops and recomputes under a policy.

    Dropped values are those that only the block's own passes read, apart from the policy's. Kernels
    are run again as far back as the remaining values require.
    """
    first, second = (set(part.kernels) for part in parts)
    results = {result.storage for result in capture.results}
    saved = {
        storage
        for storage, place in made.items()
        if place in first and second.intersection(readers[storage])
    }
    private = {s for s in saved if s not in results and (first | second).issuperset(readers[s])}
    if policy == "attention":
        private = {s for s in private if "attention" not in operator_of(capture.kernels[made[s]])}
    there = saved - private
    redone: set[int] = set()
    reads: set[int] = set()
    todo = [made[storage] for storage in private]
    while todo:
        place = todo.pop()
        if place in redone:
            continue
        redone.add(place)
        for tensor in tensors_read(capture.kernels[place]):
            inside = made.get(tensor.storage) in first
            if inside and tensor.storage not in there:
                todo.append(made[tensor.storage])
            else:
                reads.add(tensor.storage)
    return Again(policy, frozenset(private), tuple(sorted(redone)), frozenset(reads))
