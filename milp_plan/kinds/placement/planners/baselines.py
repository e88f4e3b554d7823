"""The planners that Tarnawski et al. (NeurIPS 2020) compare theirs with, under our semantics.

Each is a function of the problem and a seed that returns the device of each class, or ``None``
where it has no plan that fits. Results are re-scored exactly; those in ``CONTIGUOUS`` keep the
chain law.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ..serial.contraction import contracted
from ..serial.graph import SerialGraph
from ..serial.ideals import depth_first, prefixes
from ..serial.order import ChainGraph, chain_graph
from ..serial.value import bottleneck, fits
from .chains import best_chain
from .contiguous import ContiguousSearch

if TYPE_CHECKING:
    from .local_loops import Board

Baseline = Callable[[SerialGraph, int], list[int] | None]
RESTARTS, SWEEPS = 10, 200
"""Of the local search: as published, and sweeps over all blocks in each."""


def single(graph: SerialGraph, seed: int) -> list[int] | None:  # noqa: ARG001
    """Everything on one accelerator; ``None`` where its memory does not suffice."""
    places = [0] * len(graph)
    return places if fits(graph, places) else None


def greedy(graph: SerialGraph, seed: int) -> list[int] | None:  # noqa: ARG001
    """Fill one device after the other along a topological order.

    The next payer comes when memory is full, or when what is on the last is closer to an even
    share of the work without the next block than with it. Blocks for which no payer is left go to
    hosts.
    """
    chain = chain_graph(graph)
    work = chain.work.sum(axis=1)
    share = work.sum() / len(graph.payers)
    memory, devices = graph.memory, [0] * len(chain)
    device, load, held = 0, 0.0, 0
    hosts = len(graph.payers)
    for block in depth_first(chain):
        full = memory is not None and held + chain.size[block] > memory
        enough = load > 0 and load + work[block] / 2 > share
        if device < hosts and (full or (enough and device + 1 < hosts)):
            device, load, held = device + 1, 0.0, 0
        if device >= hosts and not graph.hosts:
            return None
        devices[block] = device
        load += work[block]
        held += chain.size[block]
    places = chain.places(devices)
    return places if fits(graph, places) else None


def pipedream(graph: SerialGraph, seed: int) -> list[int] | None:  # noqa: ARG001
    """Cut a path: what branches between two cuts stays together.

    A cut may only cross forward values of one block; values that cost nothing do not count. The
    path is cut so that the largest load is least. Source: PipeDream (Narayanan et al., SOSP 2019,
    section 3.1) plans paths; contracting branches, and loads that add transfers to the work, are
    as in Tarnawski et al., section 6.
    """
    chain = contracted(chain_graph(graph))
    order = depth_first(chain)
    answer = best_chain(chain, prefixes(chain, order)[_narrow_cuts(chain, order)])
    return None if answer.devices is None else chain.places(answer.devices)


def _narrow_cuts(chain: ChainGraph, order: list[int]) -> list[int]:
    """Lengths of prefixes that forward values of one block at most leave, and the ends."""
    position = {block: i for i, block in enumerate(order)}
    stop_of: dict[int, int] = {}
    for pins, cost in zip(chain.pins, chain.cost, strict=True):
        if cost[0] and chain.work[pins[0]].any():
            first, last = pins[0], max(position[block] for block in pins)
            stop_of[first] = max(last, stop_of.get(first, -1))
    open_until: list[int] = []
    found = [0]
    for i, block in enumerate(order):
        open_until = [stop for stop in (*open_until, stop_of.get(block, -1)) if stop > i]
        if len(open_until) <= 1:
            found.append(i + 1)
    return found


def linearised(graph: SerialGraph, seed: int) -> list[int] | None:
    """Best cuts of one depth-first order (published as the linearised dynamic programme)."""
    search = ContiguousSearch(graph, seed)
    search.linear()
    return search.places


def local_search(graph: SerialGraph, seed: int) -> list[int] | None:
    """Best of some random starts, each improved by moves of single classes; not contiguous."""
    from .local_loops import descend

    rng = Random(seed)
    best: list[int] | None = None
    for _ in range(RESTARTS):
        start = _random_start(graph, rng)
        order = list(range(len(graph)))
        rng.shuffle(order)
        if start is None:
            continue
        board = _board(graph, start)
        descend(board, np.array(order, dtype=np.int64), SWEEPS)
        found = [int(place) for place in board.places]
        if fits(graph, found) and (
            best is None or bottleneck(graph, found) < bottleneck(graph, best)
        ):
            best = found
    return best


def _board(graph: SerialGraph, places: list[int]) -> Board:
    """Return the problem in arrays, counters at zero."""
    from .local_loops import Board

    payers, devices = len(graph.payers), len(graph.payers) + len(graph.hosts)
    limits = [graph.memory] * payers + [graph.host_memory] * len(graph.hosts)
    return Board(
        np.column_stack((graph.float_work, graph.float_host_work)),
        np.array(graph.size, dtype=np.float64),
        np.array([np.inf if limit is None else limit for limit in limits], dtype=np.float64),
        np.array([1 + len(net.readers) for net in graph.nets], dtype=np.int64),
        graph.float_costs,
        _nets_of(graph),
        payers,
        np.array(places, dtype=np.int64),
        np.zeros((len(graph.nets), devices), dtype=np.int64),
        np.zeros(devices),
        np.zeros(devices),
    )


def _nets_of(graph: SerialGraph) -> np.ndarray:
    """Nets of each class, rows filled up with -1."""
    rows: list[list[int]] = [[] for _ in range(len(graph))]
    for number, net in enumerate(graph.nets):
        for block in (net.source, *net.readers):
            rows[block].append(number)
    width = max(map(len, rows), default=0) + 1
    return np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int64)


def _random_start(graph: SerialGraph, rng: Random) -> list[int] | None:
    """Each class on a random device that has room for it, large ones first."""
    count = len(graph.payers)
    limits = [graph.memory] * count + [graph.host_memory] * len(graph.hosts)
    room = [float("inf") if limit is None else limit for limit in limits]
    places = [0] * len(graph)
    for number in sorted(range(len(graph)), key=lambda i: (-graph.size[i], i)):
        able = [
            device
            for device in range(len(room))
            if (graph.work if device < count else graph.host_work)[number] is not None
            and graph.size[number] <= room[device]
        ]
        if not able:
            return None
        places[number] = rng.choice(able)
        room[places[number]] -= graph.size[number]
    return places


def scotch(graph: SerialGraph, seed: int) -> list[int] | None:  # noqa: ARG001
    """Mapping by Scotch, where its program is installed; not contiguous."""
    from .scotch import mapped

    return mapped(graph)


CONTIGUOUS: dict[str, Baseline] = {
    "one accelerator": single,
    "greedy fill": greedy,
    "PipeDream-style": pipedream,
    "linearised DP": linearised,
}
"""Those whose plans keep the chain law."""

BASELINES: dict[str, Baseline] = {
    **CONTIGUOUS,
    "local search": local_search,
    "Scotch": scotch,
}
"""All of them; human experts' splits are files."""
