"""The planners that Tarnawski et al. (NeurIPS 2020) compare theirs with, under our semantics.

Each returns the device of each class, or ``None`` where it has no plan that fits. Results are
scored exactly; all keep the chain law.
"""

from __future__ import annotations

from collections.abc import Callable

from ..serial.contraction import contracted
from ..serial.graph import SerialGraph
from ..serial.ideals import depth_first, prefixes
from ..serial.order import ChainGraph, chain_graph
from ..serial.value import fits
from .chains import best_chain
from .contiguous import ContiguousSearch

Baseline = Callable[[SerialGraph], list[int] | None]


def single(graph: SerialGraph) -> list[int] | None:
    """Place everything on one accelerator; ``None`` where its memory does not suffice."""
    places = [0] * len(graph)
    return places if fits(graph, places) else None


def greedy(graph: SerialGraph) -> list[int] | None:
    """Fill one device after the other along a topological order.

    The next payer follows when memory is full, or when the last one's work is closer to an even
    share without the next block than with it. Blocks for which no payer is left go to
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


def pipedream(graph: SerialGraph) -> list[int] | None:
    """Cut a path: branches between two cuts stay together.

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
    """Return lengths of prefixes that forward values of one block at most leave, and the ends."""
    position = {block: i for i, block in enumerate(order)}
    stop_of: dict[int, int] = {}
    for pins, cost in zip(chain.pins, chain.cost, strict=True):
        if cost[0] and chain.work[pins[0]].any():
            first, last = pins[0], max(position[block] for block in pins)
            stop_of[first] = max(last, stop_of.get(first, -1))
    open_until: list[int] = []
    cuts = [0]
    for i, block in enumerate(order):
        open_until = [stop for stop in (*open_until, stop_of.get(block, -1)) if stop > i]
        if len(open_until) <= 1:
            cuts.append(i + 1)
    return cuts


def linearised(graph: SerialGraph) -> list[int] | None:
    """Return the best cuts of one depth-first order (published as linearised dynamic programme)."""
    search = ContiguousSearch(graph)
    search.linear()
    return search.places


CONTIGUOUS: dict[str, Baseline] = {
    "one accelerator": single,
    "greedy fill": greedy,
    "PipeDream-style": pipedream,
    "linearised DP": linearised,
}
