"""A shop as flat arrays for searching: kinds, irreducible arcs, memory rules, mirror halves.

In a bidirectional placement the second route is the mirror image of the first. Plans that run
both directions alike are then described by one half of the devices: the *folded* shop, in which
device r also runs what its mirror image runs of the first route. Folding halves the search;
:meth:`Arrays.unfold` gives the words of all machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Objective

from ..mirror import mirror_image
from ..shop import Shop
from ..timing import Words

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Guard:
    """Memory that kind ``kind`` must leave free, so that the pipeline does not deadlock.

    A device that fills up with activations of early stages leaves no room for the later stages
    these wait for. So a kind may only take room that leaves one activation of every *deeper* kind
    free, unless the oldest micro-batch it holds has passed these already: ``last``, which releases
    the kind's memory, lies behind the deepest one (``passable``: they count the same
    micro-batches). ``shallow`` are the kinds of the machine's stages that are no deeper.
    """

    kind: int
    deepest: int
    shallow: tuple[int, ...]
    reserve: int
    last: int
    passable: bool


@dataclass(frozen=True)
class Arrays:
    """Flat arrays of a shop, or of the half of a mirrored shop.

    Parameters
    ----------
    shop
        The whole shop.
    kinds
        Kind of the shop for each kind of the arrays (topologically sorted within routes).
    machine
        Kind -> machine of the arrays.
    machines
        Machine of the arrays -> machine of the shop.
    mirror
        Kind of the shop -> its mirror image; empty for the whole shop.
    """

    shop: Shop
    kinds: tuple[int, ...]
    machine: tuple[int, ...]
    machines: tuple[int, ...]
    mirror: dict[int, int]

    @cached_property
    def duration(self) -> Ints:
        """Kind -> ticks."""
        return np.array([self.shop.kinds[k].duration for k in self.kinds], dtype=np.int64)

    @cached_property
    def count(self) -> Ints:
        """Kind -> micro-batches."""
        return np.array([self.shop.kinds[k].count for k in self.kinds], dtype=np.int64)

    @cached_property
    def alloc(self) -> Ints:
        """Kind -> bytes allocated at its start."""
        return np.array([self.shop.kinds[k].alloc for k in self.kinds], dtype=np.int64)

    @cached_property
    def free(self) -> Ints:
        """Kind -> bytes released at its end."""
        return np.array([self.shop.kinds[k].free for k in self.kinds], dtype=np.int64)

    @cached_property
    def limits(self) -> tuple[int | None, ...]:
        """Machine -> bytes."""
        return tuple(self.shop.limits[m] for m in self.machines)

    @cached_property
    def arcs(self) -> tuple[tuple[int, int, int], ...]:
        """Arcs of the shop between kinds of the arrays."""
        number = {k: i for i, k in enumerate(self.kinds)}
        return tuple((number[a], number[b], lag) for a, b, lag in self.shop.arcs if a in number)

    @cached_property
    def after(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Kind -> (successor, lag) pairs."""
        successors: list[list[tuple[int, int]]] = [[] for _ in self.kinds]
        for a, b, lag in self.arcs:
            successors[a].append((b, lag))
        return tuple(tuple(entries) for entries in successors)

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """Kind -> earliest start in an empty shop."""
        return tuple(self.shop.heads[k] for k in self.kinds)

    @cached_property
    def releases(self) -> tuple[int, ...]:
        """Machine -> start of its clock: 0, or for the span its earliest possible first start."""
        if self.shop.objective is not Objective.SPAN:
            return (0,) * len(self.machines)
        releases = [0] * len(self.machines)
        for m in range(len(self.machines)):
            if self.machines[m] < self.shop.num_devices:
                releases[m] = min(self.heads[k] for k in self.on_machine[m])
        return tuple(releases)

    @cached_property
    def on_machine(self) -> tuple[tuple[int, ...], ...]:
        """Machine -> its kinds."""
        rows: list[list[int]] = [[] for _ in self.machines]
        for k, m in enumerate(self.machine):
            rows[m].append(k)
        return tuple(tuple(row) for row in rows)

    @cached_property
    def descendants(self) -> tuple[frozenset[int], ...]:
        """Kind -> itself and every kind after it."""
        descendants: list[frozenset[int]] = [frozenset()] * len(self.kinds)
        for k in reversed(range(len(self.kinds))):
            descendants[k] = frozenset({k}).union(*(descendants[b] for b, _ in self.after[k]))
        return tuple(descendants)

    @cached_property
    def direct(self) -> tuple[tuple[int, int, int], ...]:
        """Arcs that no longer path implies."""
        arcs = []
        for a, b, lag in self.arcs:
            longest: dict[int, int] = {a: 0}  # kind -> latest start after a's stop, on a path
            for k in range(a, b + 1):
                if k not in longest:
                    continue
                base = longest[k] + (int(self.duration[k]) if k != a else 0)
                for q, way in self.after[k]:
                    if (k, q) != (a, b):
                        longest[q] = max(longest.get(q, 0), base + way)
            if longest.get(b, -1) < lag:
                arcs.append((a, b, lag))
        return tuple(arcs)

    def group(self, kind: int) -> tuple[int, str]:
        """Return the kinds of one stage and route."""
        entry = self.shop.kinds[self.kinds[kind]]
        return entry.route, entry.block

    @cached_property
    def holders(self) -> tuple[int, ...]:
        """Kinds that take memory on a machine with a limit."""
        return tuple(
            k
            for k, m in enumerate(self.machine)
            if self.alloc[k] > self.free[k] and self.limits[m] is not None
        )

    @cached_property
    def releasers(self) -> dict[int, tuple[int, ...]]:
        """Holder -> kinds of its stage that release memory, in order."""
        return {
            i: tuple(
                j
                for j in sorted(self.descendants[i])
                if self.free[j] > 0
                and self.machine[j] == self.machine[i]
                and self.group(j) == self.group(i)
            )
            for i in self.holders
        }

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """Admission rules of kinds with deeper kinds on their machine."""
        guards = []
        for i in self.holders:
            here = [j for j in self.holders if self.machine[j] == self.machine[i]]
            deeper = [j for j in here if self.heads[j] > self.heads[i]]
            deeper = [j for j in deeper if self.group(j) != self.group(i)]
            if not deeper or not self.releasers[i]:
                continue
            beyond = {self.group(j) for j in deeper}
            shallow = [k for k in self.on_machine[self.machine[i]] if self.group(k) not in beyond]
            routes = {self.group(j)[0] for j in [i, *deeper]}
            guards.append(
                Guard(
                    i,
                    max(deeper, key=lambda j: (self.heads[j], j)),
                    tuple(shallow),
                    sum(int(self.alloc[j]) for j in deeper),
                    self.releasers[i][-1],
                    len(routes) == 1,
                )
            )
        return tuple(guards)

    def unfold(self, words: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return words of the shop from words of the arrays."""
        rows: list[list[int]] = [[] for _ in self.shop.machines]
        for m, word in zip(self.machines, words, strict=True):
            chosen = [self.kinds[k] for k in word]
            if not self.mirror:
                rows[m] = chosen
                continue
            for k in chosen:
                image = self.mirror[k]
                rows[self.shop.kinds[k].machine].append(k)
                rows[self.shop.kinds[image].machine].append(image)
        return rows

    def fold(self, words: Words) -> list[list[int]] | None:
        """Return words of the arrays from words of the shop; ``None`` if they are not mirrored."""
        number = {k: i for i, k in enumerate(self.kinds)}
        if self.mirror:
            number |= {image: number[k] for k, image in self.mirror.items() if k in number}
        rows = [[number[k] for k in words[m]] for m in self.machines]
        return rows if self.unfold(rows) == [list(word) for word in words] else None


def whole(shop: Shop) -> Arrays:
    """Return arrays of the whole shop."""
    machines = tuple(range(len(shop.machines)))
    return Arrays(
        shop,
        tuple(range(len(shop.kinds))),
        tuple(kind.machine for kind in shop.kinds),
        machines,
        {},
    )


def halved(shop: Shop) -> Arrays | None:
    """Return arrays of half of a mirrored shop; ``None`` if it is not its own mirror image."""
    image = mirror_image(shop)
    if image is None:
        return None
    first = [k for k, kind in enumerate(shop.kinds) if kind.route == 0]
    half = [min(shop.kinds[k].machine, shop.kinds[image[k]].machine) for k in first]
    machines = sorted(set(half))
    return Arrays(
        shop,
        tuple(first),
        tuple(machines.index(m) for m in half),
        tuple(machines),
        dict(enumerate(image)),
    )
