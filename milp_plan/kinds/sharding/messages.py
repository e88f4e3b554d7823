"""Message passing with prices on memory: the dual of a labelling's local-polytope relaxation.

Any prices (at least 0) and any messages give a lower bound on the cost of every plan:
prices move the rows into the costs of labels, messages move costs between operators and edges, and
the remainder is minimised part by part. Passes are those of sequential tree-reweighted message
passing (TRW-S: Kolmogorov, IEEE PAMI 28, 2006); prices follow an averaged subgradient (the volume
algorithm: Barahona and Anbil, Mathematical Programming 87, 2000).
"""

# ruff: noqa: PLR0917, C901, PLR0912 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into
from milp_plan.core.sharding import offsets_of

from .certificates import Certificate, certify
from .labelling import BAN, Integers, Labelling

Floats = NDArray[np.float64]

_FIRST_STEP = 0.05
"""Length of a first step of prices, as a share of the distance to the target."""


@dataclass(frozen=True, eq=False)
class Links:
    """Edges by operator: of operator i ``edges[starts[i]:starts[i + 1]]``, with other ends."""

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


class MessageTables(NamedTuple):
    """Arrays of a labelling (:class:`.Labelling`) and its links."""

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
    """Numbers sent over each edge to the labels of its second operator, and back to its first."""

    forward_offsets: Integers
    forward: Floats | Integers
    backward_offsets: Integers
    backward: Floats | Integers


class Prices(NamedTuple):
    """Best and current prices of the rows, frequencies of best labels, bytes of the rows."""

    best: Floats
    now: Floats
    share: Floats
    capacity: Floats


def tables_of(labelling: Labelling) -> MessageTables:
    """Return the arrays that compiled loops go through."""
    b, links = labelling, links_of(labelling)
    return MessageTables(
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
        Cost per byte at each row; the best so far.
    bound
        Bound of these prices in floating point; :meth:`certified` returns the exact one.
    share
        How often each label was recently the best: an estimate of the relaxation's optimum.
    """

    def __init__(self, labelling: Labelling) -> None:
        b = labelling
        self.labelling = b
        self.table = np.where(b.table >= BAN, np.inf, b.table.astype(np.float64))
        self.forward_offsets = offsets_of(b.counts[b.ends[:, 1]])
        self.backward_offsets = offsets_of(b.counts[b.ends[:, 0]])
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

    def start(self, prices: Floats, share: Floats) -> None:
        """Continue from these prices and this estimate of the relaxation's optimum."""
        self.prices[:], self.share[:] = prices, share
        self._now[:] = prices

    def step(self, passes: int, target: float) -> float:
        """Improve messages and prices by some passes; return the best bound.

        Parameters
        ----------
        passes
            Forward and backward passes.
        target
            Cost of a plan, or an estimate of it: the bound is driven towards it.
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

    def climb(self, costs: Floats) -> float:
        """Pass messages up alone; return the bound, which a certificate reproduces.

        Certificates spread costs towards larger numbers, as upward messages do; after a downward
        pass they may prove far less.
        """
        return self._pass(costs, down=False)

    def _pass(self, costs: Floats, *, down: bool) -> float:
        return float(_pass(self.tables, self.messages, costs, np.empty(len(costs)), down))

    def priced(self, prices: Floats) -> Floats:
        """Return costs of labels including their memory at these prices."""
        costs = np.empty(len(self.labelling.cost))
        _price(self.tables, prices, costs)
        return costs

    def certified(self, prices: Floats | None = None) -> int:
        """Return the bound of the current messages, in integers only."""
        return self.certificate(prices).bound

    def certificate(self, prices: Floats | None = None) -> Certificate:
        """Return the bound of the current messages, and labels that it rules out."""
        return certify(self, self.prices if prices is None else prices)


@compiled
def _price(t: MessageTables, prices: Floats, out: Floats) -> None:
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
def _pass(t: MessageTables, m: Messages, costs: Floats, beliefs: Floats, down: bool) -> float:
    """Send messages up (or down) the numbers of operators; return the bound they prove."""
    count = len(t.offsets) - 1
    bound = 0.0
    for k in range(count):
        i = count - 1 - k if down else k
        first, labels = t.offsets[i], t.offsets[i + 1] - t.offsets[i]
        belief = beliefs[first : first + labels]
        copy_into(costs[first : first + labels], belief)
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
    t: MessageTables,
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
            copy_into(v.now, v.best)
        stale += 1
        if stale > 20:
            # Steps that have become too short are reset: messages have moved since.
            scale, stale = 0.7 * scale if scale > 1e-6 else _FIRST_STEP, 0
            copy_into(v.best, v.now)
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
