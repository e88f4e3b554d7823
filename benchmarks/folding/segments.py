"""Cutting a network into segments between cut variables, and knowing equal segments.

Some variables of many neighbours (hubs, such as an encoder's output) are taken out first. In what
is left, the longest path of blocks and cut variables is the spine; everything that hangs on it
belongs to a segment between two consecutive cut variables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import networkx as nx

from milp_plan.elimination.factors import FactorGraph, Scope

Local = tuple[tuple[int, Scope], ...]
"""Cost functions by table and local numbers: 0 left, 1 right, 2... inside, negative hubs."""

LARGE = 200
"""Larger segments are compared as they are: only equally drawn ones are found equal."""


@dataclass(frozen=True)
class Segment:
    """What lies between two cut variables.

    Parameters
    ----------
    left, right
        The cut variables.
    inner
        Variables inside, in an order that equal segments share.
    hubs
        Hubs that are touched.
    factors
        Numbers of the cost functions that belong here: all of the inner variables, those between
        the cut variables, and the right one's own and with hubs.
    form
        Equal for segments that are the same up to renaming inner variables: it says all there is.
    """

    left: int
    right: int
    inner: tuple[int, ...]
    hubs: tuple[int, ...]
    factors: tuple[int, ...]
    form: Local


def chains(graph: FactorGraph, hubs: Sequence[int]) -> list[list[Segment]]:
    """Segments along the spine of every connected part of a graph without its hubs."""
    net: nx.Graph[int] = nx.Graph()
    net.add_nodes_from(x for x in range(len(graph.sizes)) if x not in hubs)
    for factor in graph.factors:
        if len(factor.scope) == 2 and not set(factor.scope) & set(hubs):
            net.add_edge(*factor.scope)
    forms: dict[Local, tuple[Local, tuple[int, ...]]] = {}
    found = []
    spines = [spine for part in _parts(net) if len(spine := _spine(part)) > 2]
    owned = _owned(graph, net, spines, set(hubs))
    for number, spine in enumerate(spines):
        found.append(
            [
                _segment(graph, (left, right), owned[number, step], hubs, forms)
                for step, (left, right) in enumerate(pairwise(spine))
            ]
        )
    return found


def _parts(net: nx.Graph[int]) -> Iterable[list[frozenset[int]]]:
    """Blocks (biconnected components) of each connected part."""
    # the stubs of networkx say that it yields lists of sets
    found = cast(Iterable[set[int]], nx.biconnected_components(net))
    blocks = [frozenset(block) for block in found]
    home = {x: number for number, part in enumerate(nx.connected_components(net)) for x in part}
    parts: dict[int, list[frozenset[int]]] = {}
    for block in blocks:
        parts.setdefault(home[next(iter(block))], []).append(block)
    return parts.values()


def _spine(blocks: list[frozenset[int]]) -> list[int]:
    """Cut variables along the longest path of the tree of blocks and cut variables."""
    at: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        for x in block:
            at.setdefault(x, []).append(number)
    cuts = {x: mine for x, mine in at.items() if len(mine) > 1}
    inside: list[list[int]] = [sorted(x for x in block if x in cuts) for block in blocks]
    start = min(range(len(blocks)), key=lambda number: (min(blocks[number]), number))
    far, _ = _farthest(start, inside, cuts)
    _, path = _farthest(far, inside, cuts)
    return path if not path or path[0] <= path[-1] else path[::-1]


def _farthest(
    start: int, inside: list[list[int]], cuts: dict[int, list[int]]
) -> tuple[int, list[int]]:
    """Block farthest from one, and the cut variables on the way."""
    before: dict[int, tuple[int, int] | None] = {start: None}
    waiting = deque([start])
    last = start
    while waiting:
        last = waiting.popleft()
        for cut in inside[last]:
            for other in cuts[cut]:
                if other not in before:
                    before[other] = (cut, last)
                    waiting.append(other)
    path = []
    step = before[last]
    while step is not None:
        path.append(step[0])
        step = before[step[1]]
    return last, path


def _owned(
    graph: FactorGraph, net: nx.Graph[int], spines: list[list[int]], hubs: set[int]
) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """Inner variables and cost functions of each segment, by spine and step."""
    place = {cut: (number, k) for number, spine in enumerate(spines) for k, cut in enumerate(spine)}
    found: dict[tuple[int, int], tuple[list[int], list[int]]] = {
        (number, k): ([], []) for number, spine in enumerate(spines) for k in range(len(spine) - 1)
    }
    home: dict[int, tuple[int, int]] = {}
    rest = net.subgraph([x for x in net if x not in place])
    ends = {at for spine in spines for at in (place[spine[0]], place[spine[-1]])}
    for part in nx.connected_components(rest):
        touched = {place[y] for x in part for y in net.adj[x] if y in place}
        if not touched or (len(touched) == 1 and touched <= ends):
            continue
        key = min(touched)
        for x in sorted(part):
            home[x] = key
            found[key][0].append(x)
    for number, factor in enumerate(graph.factors):
        inside = [home[x] for x in factor.scope if x in home]
        cuts = [place[x] for x in factor.scope if x in place]
        loose = any(x not in home and x not in place and x not in hubs for x in factor.scope)
        if inside:
            found[inside[0]][1].append(number)
        elif cuts and not loose and max(cuts)[1] > 0:
            found[max(cuts)[0], max(cuts)[1] - 1][1].append(number)
    return found


def _segment(
    graph: FactorGraph,
    ends: tuple[int, int],
    owned: tuple[list[int], list[int]],
    hubs: Sequence[int],
    forms: dict[Local, tuple[Local, tuple[int, ...]]],
) -> Segment:
    (left, right), (inner, factors) = ends, owned
    place = {left: 0, right: 1, **{x: -1 - k for k, x in enumerate(hubs)}}
    place.update((x, 2 + k) for k, x in enumerate(inner))
    used = [graph.factors[number] for number in factors]
    raw = tuple(sorted((f.table, tuple(place[x] for x in f.scope)) for f in used))
    if raw not in forms:
        large = len(inner) > LARGE
        forms[raw] = (raw, tuple(range(len(inner)))) if large else _canonical(raw, len(inner))
    form, order = forms[raw]
    touched = {x for f in used for x in f.scope}
    return Segment(
        left,
        right,
        tuple(inner[k] for k in order),
        tuple(x for x in hubs if x in touched),
        tuple(factors),
        form,
    )


def _canonical(raw: Local, count: int) -> tuple[Local, tuple[int, ...]]:
    """Cost functions after renaming inner variables by what they look like, and their order.

    Refines colours until none splits, then singles one out and goes on. Two raw forms with the same
    result are isomorphic; symmetric segments may miss each other, which costs time only.
    """
    colours = {x: x for _, scope in raw for x in scope if x < 2}
    colours.update((2 + k, 2) for k in range(count))
    while True:
        colours = _refined(raw, colours)
        groups: dict[int, list[int]] = {}
        for x in range(2, 2 + count):
            groups.setdefault(colours[x], []).append(x)
        twins = [members for _, members in sorted(groups.items()) if len(members) > 1]
        if not twins:
            break
        colours = {x: 2 * colour for x, colour in colours.items()}
        colours[twins[0][0]] -= 1
    order = sorted(range(2, 2 + count), key=lambda x: colours[x])
    new = {x: 2 + k for k, x in enumerate(order)}
    form = sorted((table, tuple(new.get(x, x) for x in scope)) for table, scope in raw)
    return tuple(form), tuple(x - 2 for x in order)


def _refined(raw: Local, colours: dict[int, int]) -> dict[int, int]:
    while True:
        seen: dict[int, list[tuple[int, int, Scope]]] = {x: [] for x in colours}
        for table, scope in raw:
            look = tuple(colours[x] for x in scope)
            for axis, x in enumerate(scope):
                seen[x].append((table, axis, look))
        marks = {x: (colours[x], tuple(sorted(seen[x]))) for x in colours}
        ranks = {mark: rank for rank, mark in enumerate(sorted(set(marks.values())))}
        if len(ranks) == len(set(colours.values())):
            return {x: ranks[mark] for x, mark in marks.items()}
        colours = {x: ranks[mark] for x, mark in marks.items()}
