"""A part of a graph, read forwards or backwards: which operators make values, which wait for them.

A value is there from the first of those that make it to the last of those that read it. Forwards
one operator makes it. Read backwards, its readers make it, and its producer is who reads it: an
order and the same order backwards hold the same bytes beside each operator.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .reading import OrderGraph

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = 2**62
"""More bytes than any order holds."""

_ROUNDS = 50
"""Most rounds in which precedences imply further ones."""


class Flow(NamedTuple):
    """A part; its operators are numbered as in the list it is made of.

    ``makers``, ``readers``: of each value, within the part. ``there``: whether a value is there at
    the begin; ``left``: how many wait for it, within the part and beyond. ``sizes`` of values.
    ``rest``: bytes of each operator beside such values. ``lasting``: whether it takes any time.
    ``before``: operators of the part that each one waits for. ``live``: bytes held at the begin.
    """

    makers: list[list[int]]
    readers: list[list[int]]
    there: list[bool]
    left: list[int]
    sizes: list[int]
    rest: list[int]
    lasting: list[bool]
    before: list[set[int]]
    live: int


def flow_of(graph: OrderGraph, operators: list[int], done: Set[int], backwards: bool) -> Flow:
    """Read a part, with what has run before it; backwards it begins where the part ends."""
    place = {operator: i for i, operator in enumerate(operators)}
    begun = done | place.keys() if backwards else done
    flow = Flow([], [], [], [], [], *_operators(graph, operators, place, backwards), 0)
    live = graph.base_bytes
    for size, producer, consumers in zip(
        graph.sizes, graph.producers, graph.consumers, strict=True
    ):
        beyond = sum(reader not in done and reader not in place for reader in consumers)
        readers = [place[reader] for reader in consumers if reader in place]
        live += size if producer in begun and any(r not in begun for r in consumers) else 0
        makers = [place[producer]] if producer in place else []
        if not readers and not (makers and beyond):
            continue
        flow.sizes.append(size)
        flow.makers.append(readers if backwards else makers)
        flow.readers.append(makers if backwards else readers)
        flow.there.append(beyond > 0 if backwards else not makers)
        flow.left.append(1 if backwards else len(readers) + beyond)
    return flow._replace(live=live)


def _operators(
    graph: OrderGraph, operators: list[int], place: dict[int, int], backwards: bool
) -> tuple[list[int], list[bool], list[set[int]]]:
    """Return what each operator needs for itself, whether it takes time, and what it waits for."""
    before: list[set[int]] = [set() for _ in operators]
    for o in operators:
        for earlier in graph.before[o]:
            if earlier in place:
                first, then = (o, earlier) if backwards else (earlier, o)
                before[place[then]].add(place[first])
    unread = [
        sum(graph.sizes[v] for v in graph.outputs[o] if not graph.consumers[v]) for o in operators
    ]
    rest = [graph.workspace[o] + bytes_ for o, bytes_ in zip(operators, unread, strict=True)]
    return rest, [graph.lasting[o] for o in operators], before


class Sure(NamedTuple):
    """What is sure whatever the order.

    ``behind``: per operator, itself and all that come after it. ``early``: per value and operator,
    whether it is made by then; ``late``: whether it is not released before. ``need``: bytes that
    are held beside each operator at least. ``least``: within less than this, the same is sure.
    """

    behind: Flags
    early: Flags
    late: Flags
    need: Integers
    least: int

    @property
    def circular(self) -> bool:
        """Whether operators would have to come before each other."""
        return bool((self.behind & self.behind.T).sum() > len(self.behind))

    def forbids(self, top: int) -> bool:
        """Return whether no order needs at most ``top`` bytes."""
        return self.circular or int(self.need.max(initial=0)) > top


def sure_within(flow: Flow, top: int) -> Sure:
    """Find what is sure where no operator that lasts may need more than ``top`` bytes.

    If one operator before another needs more, then the other comes first: all that come behind the
    other would lie beside what those before the one have made, and those before the one beside
    what those behind the other read. What that settles may settle more.
    """
    behind = np.eye(len(flow.rest), dtype=np.bool_)
    for o, before in enumerate(flow.before):
        behind[list(before), o] = True
    result = _sure(flow, _closed(behind), NEVER)
    for _ in range(_ROUNDS):
        if result.circular:
            break
        if result.forbids(top):
            return result._replace(least=min(result.least, int(result.need.max())))
        most = _most(flow, result)
        new = (most > top) & ~result.behind & ~result.behind.T
        if not new.any():
            break
        least = min(result.least, int(most[new].min()))
        result = _sure(flow, _closed(result.behind | new.T), least)
    return result


def _sure(flow: Flow, behind: Flags, least: int) -> Sure:
    """Return what a relation between operators implies."""
    count = len(behind)
    makes, reads = _marks(flow.makers, count), _marks(flow.readers, count)
    stays = np.array(flow.left, np.int64) > reads.sum(axis=1)
    there = np.array(flow.there, np.bool_)
    early = makes @ behind.astype(np.int64) + there[:, None] > 0
    late = reads @ behind.T.astype(np.int64) + stays[:, None] > 0
    sizes = np.array(flow.sizes, np.int64)
    begin = flow.live - int(sizes[there].sum())
    need = begin + np.array(flow.rest, np.int64) + sizes @ (early & late)
    return Sure(behind, early, late, np.where(flow.lasting, need, 0), least)


def _most(flow: Flow, sure: Sure) -> Integers:
    """Bytes that are surely needed by some operator if one (row) comes before another (column)."""
    sizes = np.array(flow.sizes, np.int64)[:, None]
    lasting = np.array(flow.lasting, np.int64)[:, None]
    made = (sizes * (sure.late & ~sure.early)).T @ sure.early.astype(np.int64)
    kept = (sizes * (sure.early & ~sure.late)).T @ sure.late.astype(np.int64)
    made, kept = lasting * (sure.need[:, None] + made), lasting * (sure.need[:, None] + kept)
    count = len(sure.behind)
    most = np.empty((count, count), np.int64)
    for o in range(count):
        most[:, o] = made[sure.behind[o]].max(axis=0)
    for o in range(count):
        np.maximum(most[o], kept[sure.behind[:, o]].max(axis=0), out=most[o])
    return most


def _marks(lists: list[list[int]], count: int) -> Integers:
    """Return a row of ones and zeros for each list."""
    result = np.zeros((len(lists), count), np.int64)
    for row, entries in zip(result, lists, strict=True):
        row[entries] = 1
    return result


def _closed(behind: Flags) -> Flags:
    """Return the transitive closure of a relation."""
    while True:
        more = behind.astype(np.int32) @ behind.astype(np.int32) > 0
        if (more == behind).all():
            return behind
        behind = more
