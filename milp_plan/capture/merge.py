"""Merges fused kernels to operators of a plan: by kernel, by module or by block of the model.

Merging only puts groups together; durations add up, so that their sum stays the same to the tick.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from milp_plan.core import Finding, InputError
from milp_plan.io.capture_wire import Capture

from .grouping import Groups
from .passes import BACKWARD_INPUT, FORWARD, homes, kinds, label_of, sources

GRANULARITIES = ("kernel", "module", "block")
"""All granularities of operators of the plan."""


@dataclass(frozen=True)
class Part:
    """Kernels that a plan places as one operator.

    Parameters
    ----------
    label
        Path of the module or block; at granularity ``kernel``, of the module; empty where it is
        unknown.
    kind
        ``forward``, ``backward-input`` or ``backward-weight``.
    units
        Fused groups of kernels, in captured order of their first members.
    single
        Whether it is one fused group, not all kernels of a module or block.
    """

    label: str
    kind: str
    units: tuple[tuple[int, ...], ...]
    single: bool = False

    @property
    def kernels(self) -> tuple[int, ...]:
        """Positions of all its kernels, in captured order."""
        return tuple(sorted(place for unit in self.units for place in unit))


def merged(
    capture: Capture,
    units: Sequence[tuple[int, ...]],
    granularity: str,
    *,
    joint_backward: bool = False,
    home: Sequence[str] | None = None,
    unknown: Collection[int] = (),
) -> list[Part]:
    """Merge fused groups of one module (or block) and kind, unless that would close a cycle.

    Parameters
    ----------
    capture
        The graph.
    units
        Its fused groups; together they contain every kernel once.
    granularity
        One of :data:`GRANULARITIES`.
    joint_backward
        Whether the backward pass for inputs and for weights is one operator.
    home
        Kernel -> path of its module, where it is not the captured one.
    unknown
        Kernels of unknown module: a fused group that ends with one stays separate.

    Raises
    ------
    InputError
        Another granularity.
    """
    if granularity not in GRANULARITIES:
        expected = f"one of {', '.join(GRANULARITIES)}"
        raise InputError([Finding("granularity", repr(granularity), expected, "correct it")])
    kind, home = kinds(capture), homes(capture) if home is None else home
    if joint_backward:
        kind = [FORWARD if entry == FORWARD else BACKWARD_INPUT for entry in kind]
    place_of = {place: number for number, unit in enumerate(units) for place in unit}
    edges = sources(capture)
    order = _ordered(units, edges, place_of)
    groups = Groups(len(units))
    labels: list[tuple[str, str, bool]] = []
    known: dict[tuple[str, str, bool], list[int]] = {}
    for number in order:
        unit = units[number]
        last = unit[-1]
        single = granularity == "kernel" or last in unknown
        guessed = last in unknown and capture.kernels[last].module is None
        path = "" if guessed else label_of(home[last], granularity)
        label = path, kind[last], single
        before = {place_of[source] for place in unit for source in edges[place]} - {number}
        candidates = () if single else reversed(known.setdefault(label, []))
        group = next((group for group in candidates if groups.may_join(group, before)), None)
        if group is None:
            known.setdefault(label, []).append(groups.open(number, before))
            labels.append(label)
        else:
            groups.join(number, group, before)
    parts = [
        Part(path, kind, tuple(sorted(units[number] for number in members)), single)
        for (path, kind, single), members in zip(labels, groups.members, strict=True)
    ]
    return sorted(parts, key=lambda part: part.kernels[0])


def joined(capture: Capture, parts: Sequence[Part]) -> dict[str, str]:
    """Return an entry of the provenance where operators are more than kernels."""
    kernels = len(capture.kernels)
    if kernels == len(parts):
        return {}
    return {"fixed": f"{kernels:,} kernels run as {len(parts):,} operators"}


def _ordered(
    units: Sequence[tuple[int, ...]], edges: list[tuple[int, ...]], place_of: dict[int, int]
) -> list[int]:
    """Return numbers of groups, producers first; of the free ones the first captured."""
    import heapq

    before = [
        {place_of[source] for place in unit for source in edges[place]} - {number}
        for number, unit in enumerate(units)
    ]
    after: list[list[int]] = [[] for _ in units]
    for number, sources_of in enumerate(before):
        for source in sources_of:
            after[source].append(number)
    missing = [len(sources_of) for sources_of in before]
    free = [(units[number][0], number) for number, count in enumerate(missing) if count == 0]
    heapq.heapify(free)
    order = []
    while free:
        _, number = heapq.heappop(free)
        order.append(number)
        for reader in after[number]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(free, (units[reader][0], reader))
    return order
