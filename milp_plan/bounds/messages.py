"""Message passing with prices on memory: the dual of a labelling's local-polytope relaxation.

Any prices (at least 0) and any messages give a lower bound on the cost of every plan:
prices move the rows into the costs of labels, messages move costs between operators and edges, and
what is left is minimised part by part. Passes are those of sequential tree-reweighted message
passing (TRW-S: Kolmogorov, IEEE PAMI 28, 2006); prices follow an averaged subgradient (the volume
algorithm: Barahona and Anbil, Mathematical Programming 87, 2000).
"""

# ruff: noqa: PLR0917, C901, PLR0912 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled
from milp_plan.core.labelling import BAN, Integers, Labelling

Floats = NDArray[np.float64]

_FIRM = 2**61
"""Sums of integers in the exact bound stay below this."""
_FIRST_STEP = 0.05
"""Length of a first step of prices, as a share of the way to the target."""


@dataclass(frozen=True, eq=False)
class Links:
    """Edges by operator: of operator i ``edges[starts[i]:starts[i + 1]]``, the other end beside."""

    starts: Integers
    neighbours: Integers
    edges: Integers


def links_of(labelling: Labelling) -> Links:
    """List the edges of every operator."""
    ends, count = labelling.ends, len(labelling)
    owner = ends.ravel()
    order = np.argsort(owner, kind="stable")
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=starts[1:])
    return Links(
        starts,
        np.ascontiguousarray(ends[:, ::-1]).ravel()[order],
        np.repeat(np.arange(len(ends)), 2)[order],
    )


class Tables(NamedTuple):
    """Arrays of a labelling (:class:`~milp_plan.core.labelling.Labelling`) and its links."""

    offsets: Integers
    cost: Integers
    ends: Integers
    table_offsets: Integers
    table: Integers | Floats
    starts: Integers
    neighbours: Integers
    edges: Integers
    part_offsets: Integers
    parts: Integers
    use_offsets: Integers
    usage: Integers


class Messages(NamedTuple):
    """What is sent over each edge to the labels of its second operator, and back to its first."""

    forward_offsets: Integers
    forward: Floats | Integers
    backward_offsets: Integers
    backward: Floats | Integers


class Prices(NamedTuple):
    """Best and present prices of the rows, how often labels were the best, bytes of the rows."""

    best: Floats
    now: Floats
    share: Floats
    capacity: Floats


def tables_of(labelling: Labelling) -> Tables:
    """Return the arrays that compiled loops go through."""
    b, links = labelling, links_of(labelling)
    return Tables(
        b.offsets, b.cost, b.ends, b.table_offsets, b.table,
        links.starts, links.neighbours, links.edges,
        b.part_offsets, b.parts, b.use_offsets, b.usage,
    )  # fmt: skip


class Dual:
    """Prices and messages, improved step by step.

    Parameters
    ----------
    labelling
        The problem.

    Attributes
    ----------
    prices
        Cost per byte at each row; the best found so far.
    bound
        The bound of these prices in floating point; :meth:`certified` gives the exact one.
    share
        Per label how often it was the best one lately: an estimate of the relaxation's optimum.
    """

    def __init__(self, labelling: Labelling) -> None:
        b = labelling
        self.labelling = b
        self.table = np.where(b.table >= BAN, np.inf, b.table.astype(np.float64))
        self.forward_offsets = _offsets(b.counts[b.ends[:, 1]])
        self.backward_offsets = _offsets(b.counts[b.ends[:, 0]])
        self.forward = np.zeros(self.forward_offsets[-1])
        self.backward = np.zeros(self.backward_offsets[-1])
        self.tables = tables_of(b)._replace(table=self.table)
        self.messages = Messages(
            self.forward_offsets, self.forward, self.backward_offsets, self.backward
        )
        self.capacity = b.capacity.astype(np.float64)
        self.prices = np.zeros(len(b.capacity))
        self.share = np.zeros(len(b.cost))
        self.bound = -np.inf
        self._now = self.prices.copy()
        self._scale = _FIRST_STEP
        self._stale = 0

    def step(self, passes: int, target: float) -> float:
        """Improve messages and prices by some passes; return the best bound.

        Parameters
        ----------
        passes
            Forward and backward passes.
        target
            Cost of a plan, or a guess of one: the bound is driven towards it.
        """
        constant = self.labelling.constant
        self.bound, self._scale, self._stale = _ascend(
            self.tables,
            self.messages,
            Prices(self.prices, self._now, self.share, self.capacity),
            passes,
            target - constant,
            self.bound,
            self._scale,
            self._stale,
        )
        return self.bound + constant

    def settle(self, passes: int) -> float:
        """Improve the messages alone, at the best prices; return the bound."""
        costs = self.priced(self.prices)
        paid = float(self.prices @ self.capacity)
        for _ in range(passes):
            self.bound = max(self.bound, self.send(costs) - paid)
        return self.bound + self.labelling.constant

    def send(self, costs: Floats) -> float:
        """Pass messages up and down once; return the bound that they prove for these costs."""
        return max(self._pass(costs, down=False), self._pass(costs, down=True))

    def _pass(self, costs: Floats, *, down: bool) -> float:
        return float(_pass(self.tables, self.messages, costs, np.empty(len(costs)), down))

    def priced(self, prices: Floats) -> Floats:
        """Costs of labels with what their memory costs at these prices."""
        costs = np.empty(len(self.labelling.cost))
        _price(self.tables, prices, costs)
        return costs

    def certified(self, prices: Floats | None = None) -> int:
        """Return the bound of the present messages, in integers only."""
        return certified(self, self.prices if prices is None else prices)


def certified(dual: Dual, prices: Floats) -> int:
    """Bound of prices and messages, both rounded to a grid, by integer arithmetic alone.

    Costs are multiplied by a power of two as large as 64 bits allow; whatever the prices and
    messages are, the result is a lower bound.
    """
    b = dual.labelling
    costs = dual.priced(prices)
    real = np.where(np.isfinite(dual.table), np.abs(dual.table), 0.0)
    largest = max(np.abs(dual.forward).max(initial=0.0), np.abs(dual.backward).max(initial=0.0))
    reach = np.abs(costs).max(initial=1.0) + real.max(initial=0.0)
    reach += 8 * (largest if np.isfinite(largest) else 0.0)
    shift = 0
    while shift < 20 and reach * (1 << (shift + 1)) * 64 < _FIRM:
        shift += 1
    scale = 1 << shift
    whole = np.floor((costs - b.cost) * scale).astype(np.int64)
    whole -= (np.abs(whole) >> 40) + 1  # floating point sums of prices may be a little too large
    whole += b.cost * scale
    messages = dual.messages._replace(
        forward=_grid(dual.forward, scale), backward=_grid(dual.backward, scale)
    )
    total = _integer_bound(tables_of(b), messages, whole, scale)
    paid = 0
    for price, room in zip(prices.tolist(), b.capacity.tolist(), strict=True):
        if price > 0:
            top, bottom = price.as_integer_ratio()
            paid += -((-top * room * scale) // bottom)
    exact = int(total[0]) * 2**32 + int(total[1])
    return b.constant + -((paid - exact) // scale)


def _grid(messages: Floats, scale: int) -> Integers:
    """Round messages to the grid; any integers are messages, so endless ones may become 0."""
    rounded = np.rint(np.nan_to_num(messages * scale, nan=0.0, posinf=0.0, neginf=0.0))
    return np.asarray(np.clip(rounded, -(2.0**58), 2.0**58).astype(np.int64))


def _offsets(sizes: Integers) -> Integers:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


@compiled
def _price(t: Tables, prices: Floats, out: Floats) -> None:
    sums = np.zeros(len(prices) + 1)
    for r in range(len(prices)):
        sums[r + 1] = sums[r] + prices[r]
    for i in range(len(t.offsets) - 1):
        width = t.part_offsets[i + 1] - t.part_offsets[i]
        for x in range(t.offsets[i + 1] - t.offsets[i]):
            total = float(t.cost[t.offsets[i] + x])
            for p in range(width):
                lo, hi = t.parts[t.part_offsets[i] + p]
                total += t.usage[t.use_offsets[i] + x * width + p] * (sums[hi] - sums[lo])
            out[t.offsets[i] + x] = total


@compiled
def _pass(t: Tables, m: Messages, costs: Floats, beliefs: Floats, down: bool) -> float:
    """Send messages up (or down) the numbers of operators; return the bound they prove."""
    count = len(t.offsets) - 1
    bound = 0.0
    for k in range(count):
        i = count - 1 - k if down else k
        first, labels = t.offsets[i], t.offsets[i + 1] - t.offsets[i]
        belief = beliefs[first : first + labels]
        belief[:] = costs[first : first + labels]
        up = 0
        for q in range(t.starts[i], t.starts[i + 1]):
            e = t.edges[q]
            if t.ends[e, 0] == i:
                up += 1
                at = m.backward_offsets[e]
                for x in range(labels):
                    belief[x] += m.backward[at + x]
            else:
                at = m.forward_offsets[e]
                for x in range(labels):
                    belief[x] += m.forward[at + x]
        degree = t.starts[i + 1] - t.starts[i]
        ahead = degree - up if down else up
        weight = 1.0 / max(1, up, degree - up)
        bound += (1.0 - weight * ahead) * belief.min()
        for q in range(t.starts[i], t.starts[i + 1]):
            j, e = t.neighbours[q], t.edges[q]
            if (t.ends[e, 0] == i) == down:
                continue
            other = t.offsets[j + 1] - t.offsets[j]
            at = t.table_offsets[e]
            if down:
                out = m.backward[m.backward_offsets[e] : m.backward_offsets[e] + other]
                back = m.forward[m.forward_offsets[e] : m.forward_offsets[e] + labels]
                for y in range(other):
                    best = np.inf
                    for x in range(labels):
                        best = min(
                            best, weight * belief[x] - back[x] + t.table[at + y * labels + x]
                        )
                    out[y] = best
            else:
                out = m.forward[m.forward_offsets[e] : m.forward_offsets[e] + other]
                back = m.backward[m.backward_offsets[e] : m.backward_offsets[e] + labels]
                out[:] = np.inf
                for x in range(labels):
                    own = weight * belief[x] - back[x]
                    for y in range(other):
                        out[y] = min(out[y], own + t.table[at + x * other + y])
            least = out.min()
            bound += least
            for y in range(other):
                out[y] -= least
    return bound


@compiled
def _ascend(
    t: Tables,
    m: Messages,
    v: Prices,
    passes: int,
    target: float,
    best: float,
    scale: float,
    stale: int,
) -> tuple[float, float, int]:
    rows = len(v.capacity)
    costs = np.empty(len(t.cost))
    beliefs = np.empty(len(t.cost))
    change = np.empty(rows + 1)
    for _ in range(passes):
        _price(t, v.now, costs)
        bound = -1e300
        for down in range(2):
            bound = max(bound, _pass(t, m, costs, beliefs, down == 1))
        for r in range(rows):
            bound -= v.now[r] * v.capacity[r]
        if bound > best:
            if bound > best + 1e-5 * abs(target - best):
                stale = 0
                scale = min(2.0, 1.05 * scale)
            best = bound
            v.best[:] = v.now
        stale += 1
        if stale > 20:
            # Steps that have become too short to matter begin anew: messages have moved since.
            scale, stale = 0.7 * scale if scale > 1e-6 else _FIRST_STEP, 0
            v.now[:] = v.best
        keep = 0.8
        for i in range(len(t.offsets) - 1):
            pick = t.offsets[i] + np.argmin(beliefs[t.offsets[i] : t.offsets[i + 1]])
            for x in range(t.offsets[i], t.offsets[i + 1]):
                v.share[x] *= keep
            v.share[pick] += 1.0 - keep
        if rows == 0:
            continue
        change[:] = 0.0
        for i in range(len(t.offsets) - 1):
            width = t.part_offsets[i + 1] - t.part_offsets[i]
            if width == 0:
                continue
            for x in range(t.offsets[i + 1] - t.offsets[i]):
                part_of = v.share[t.offsets[i] + x]
                if part_of < 1e-4:
                    continue
                for p in range(width):
                    lo, hi = t.parts[t.part_offsets[i] + p]
                    used = t.usage[t.use_offsets[i] + x * width + p] * part_of
                    change[lo] += used
                    change[hi] -= used
        held, norm = 0.0, 0.0
        for r in range(rows):
            held += change[r]
            over = held - v.capacity[r]
            if over > 0.0 or v.now[r] > 0.0:
                norm += over * over
            change[r] = over
        if norm > 0.0:
            length = scale * max(target - bound, 1e-3 * abs(target)) / norm
            for r in range(rows):
                v.now[r] = max(0.0, v.now[r] + length * change[r])
    return best, scale, stale


@compiled
def _integer_bound(t: Tables, m: Messages, costs: Integers, scale: int) -> tuple[int, int]:
    """Return high and low 32 bits of the sum of minima, in units of 1 / scale.

    Each operator spreads its costs evenly over the edges to larger numbers.
    """
    high, low = 0, 0
    count = len(t.offsets) - 1
    shares = np.zeros(len(costs), dtype=np.int64)
    for i in range(count):
        first, labels = t.offsets[i], t.offsets[i + 1] - t.offsets[i]
        belief = costs[first : first + labels].copy()
        up = 0
        for q in range(t.starts[i], t.starts[i + 1]):
            e = t.edges[q]
            if t.ends[e, 0] == i:
                up += 1
                for x in range(labels):
                    belief[x] += m.backward[m.backward_offsets[e] + x]
            else:
                for x in range(labels):
                    belief[x] += m.forward[m.forward_offsets[e] + x]
        weight = max(1, up, t.starts[i + 1] - t.starts[i] - up)
        for x in range(labels):
            shares[first + x] = belief[x] // weight
            belief[x] -= up * shares[first + x]
        least = belief.min()
        high += least >> 32
        low += least & 0xFFFFFFFF
    for e in range(len(t.ends)):
        a, b = t.ends[e]
        width = t.offsets[b + 1] - t.offsets[b]
        least = 2**62
        for x in range(t.offsets[a + 1] - t.offsets[a]):
            own = shares[t.offsets[a] + x] - m.backward[m.backward_offsets[e] + x]
            for y in range(width):
                entry = t.table[t.table_offsets[e] + x * width + y]
                if entry < BAN:
                    least = min(least, entry * scale + own - m.forward[m.forward_offsets[e] + y])
        high += least >> 32
        low += least & 0xFFFFFFFF
    return high, low
