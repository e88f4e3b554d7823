"""Branch and bound over a reduced problem: memory first, then structure.

At each node messages and prices are improved, labels that no plan below the best known cost can
take are removed (:mod:`.certificates`), and the rest is reduced again; without
rows of memory it is eliminated exactly where that is narrow. A node is split by the usage of an
operator in the rows that have a price (the multipliers' relaxation mixes large and small
usages there), else by the label that messages favour against the others.

**Proof of the bound.** A split gives every label of one operator to one of two nodes, so a plan of
the node is a plan of one of them. A node is closed when the certificate in integers proves that it
has no plan below the best known cost, when the exact steps do, or when its optimum is known;
labels are removed for the same reasons. So no plan costs less than the least of the best known cost
and of the bounds of the open nodes; and a node's bound is at least that of its parent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from milp_plan.core import InputError
from milp_plan.elimination.repeated import CostTable, RepeatedProblem
from milp_plan.elimination.search import Caps, Eliminated, eliminate

from ..coarsen.masks import possible_labels
from ..coarsen.rebuild import without_labels
from ..coarsen.stage import reduced
from ..coarsen.steps import Undo
from ..labelling import BAN, Flags, Integers, Labelling
from ..messages import Dual
from .graph import Floats

NAME = "branch and bound"

PASSES, ROUNDS, SETTLE = 4, 4, 8
"""Passes of an ascent, largest number of ascents of a node, passes after each at best prices."""

PROGRESS = 0.002
"""Share of the gap that an ascent must close for another one to follow."""

AGAIN = 0.7
"""Share of the labels at the last reductions below which reductions are repeated."""

CAPS = Caps(largest=500_000, entries=5_000_000, stored=2_000_000)
"""Largest tables for which a node without memory is eliminated: tenths of a second."""

MAX_BYTES = 2**30
"""Memory of open nodes, bytes; beyond it the youngest is examined first, which opens few."""


@dataclass(frozen=True, eq=False)
class Trail:
    """Steps from a node's labels to those of the root."""

    step: Undo
    before: Trail | None

    def lift(self, labels: Integers) -> Integers:
        """Return the labels of the root."""
        trail: Trail | None = self
        while trail is not None:
            labels, trail = trail.step.lift(labels), trail.before
        return labels


@dataclass(eq=False)
class Node:
    """A subset of the plans: the remaining labelling, and its messages.

    Parameters
    ----------
    labelling
        The remaining labelling.
    trail
        Steps to the root's labels.
    bound
        Lower bound on the cost of the node's plans.
    prices, share, messages
        State to continue from; ``None`` for the initial state.
    whole
        Number of labels at the last reductions.
    waiting, family
        Labels that remain once the node is examined (``None``: all of them), and the number of
        nodes that share its labelling and messages until then.
    """

    labelling: Labelling
    trail: Trail | None
    bound: int
    prices: Floats | None = None
    share: Floats | None = None
    messages: tuple[Floats, Floats] | None = None
    whole: int = 0
    waiting: Flags | None = None
    family: int = 1

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        b, sent = self.labelling, self.messages
        numbers = len(b.table) + len(b.usage) + 4 * len(b.cost)
        numbers += 0 if sent is None else 2 * len(sent[0])
        return 8 * numbers // self.family + (0 if self.waiting is None else len(self.waiting))

    def dual(self) -> Dual:
        """Return the messages and prices, to be improved."""
        dual = Dual(self.labelling)
        if self.messages is not None:
            dual.forward[:], dual.backward[:] = self.messages
        if self.prices is not None and self.share is not None:
            dual.start(self.prices, self.share)
        return dual


class Tree:
    """The search; :meth:`step` examines one node.

    Parameters
    ----------
    labelling
        The problem.
    value
        Returns the cost of the best known plan; called before each node; ``None`` without one.
    offer
        Called with the labels of every plan.
    bound
        Lower bound on the cost of all plans.
    over
        Returns whether to stop; called also within a node.

    Attributes
    ----------
    reduces
        Whether nodes are reduced; otherwise operators retain their numbers.
    passes
        Passes of an ascent.
    """

    reduces = True
    passes = PASSES

    def __init__(
        self,
        labelling: Labelling,
        value: Callable[[], int | None],
        offer: Callable[[Integers], object],
        bound: int,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.value, self.offer, self.over = value, offer, over
        self.nodes = self.bytes = 0
        self._open: list[tuple[int, int, Node]] = []
        self._working: int | None = None
        self._count = 0
        self._push(Node(labelling, None, bound))

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def bound(self) -> int | None:
        """Lower bound on the cost of all plans; ``None`` if there are none."""
        parts = [entry[0] for entry in self._open[:1]] + [
            part for part in (self._working, self.value()) if part is not None
        ]
        if self._depth_first:
            parts += [entry[0] for entry in self._open]
        return min(parts, default=None)

    @property
    def _depth_first(self) -> bool:
        return self.bytes > MAX_BYTES

    def step(self) -> None:
        """Examine the open node with the least bound (the youngest where memory is short)."""
        node = self._pop()
        self._working = node.bound
        if not self._closed(node.bound):
            left = self._examine(node, self.passes)
            if left is not None:
                for child in self._split(*left):
                    self._push(child)
        if not self.over():
            self._working = None

    def root(self, passes: int) -> Node | None:
        """Improve the root alone; return it, or ``None`` where it was closed."""
        node = self._pop()
        self._working = node.bound
        left = self._examine(node, passes)
        if left is None:
            self._working = None
            return None
        node, dual = left
        keep(node, dual)
        self._push(node)
        self._working = None
        return node

    # -- open nodes --------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        self._count += 1
        self.bytes += node.size
        heapq.heappush(self._open, (node.bound, -self._count, node))

    def _pop(self) -> Node:
        if self._depth_first:
            place = min(range(len(self._open)), key=lambda k: self._open[k][1])
            node = self._open.pop(place)[2]
            heapq.heapify(self._open)
        else:
            node = heapq.heappop(self._open)[2]
        self.bytes -= node.size
        self.nodes += 1
        return node

    def _closed(self, bound: int) -> bool:
        value = self.value()
        return value is not None and bound >= value

    # -- a node ------------------------------------------------------------------------------

    def _examine(self, node: Node, passes: int) -> tuple[Node, Dual] | None:
        """Improve a node until that stalls; return ``None`` where it is closed."""
        for _ in range(ROUNDS if passes == self.passes else 4 * ROUNDS):
            changed = len(node.labelling.cost) <= AGAIN * node.whole or not node.whole
            if self.reduces and changed:
                if not self._reduce(node):
                    return None
                if not len(node.labelling.capacity) and self._eliminate(node):
                    return None
            if node.labelling.counts.max() == 1:
                self._report(node, np.zeros(len(node.labelling), dtype=np.int64))
                return None
            dual, before = node.dual(), node.bound
            target = self.value()
            goal = float(target if target is not None else before + 0.3 * abs(before) + 1.0)
            dual.step(passes if node.messages is not None else 5 * passes, goal)
            dual.settle(SETTLE)
            proof = dual.certificate()
            node.bound = max(node.bound, proof.bound)
            if self._closed(node.bound):
                return None
            alive = possible_labels(node.labelling)
            if target is not None:
                alive &= proof.possible(target)
            if not _everyone(node.labelling, alive):
                return None
            gone = len(alive) - int(alive.sum())
            keep(node, dual)
            if gone:
                self._leave(node, alive)
            room = goal - before
            if gone < 0.05 * len(alive) and node.bound - before < PROGRESS * room:
                return node, node.dual()
            if self.over():
                break
        return node, node.dual()

    def _reduce(self, node: Node) -> bool:
        """Apply the exact reductions; return whether choices remain."""
        reduction = reduced(node.labelling)
        if reduction.infeasible_reason is not None:
            return False
        for step in reduction.steps:
            node.trail = Trail(step, node.trail)
        if reduction.steps or len(reduction.labelling.capacity) != len(node.labelling.capacity):
            node.prices = node.share = node.messages = None
        node.labelling, node.whole = reduction.labelling, max(1, len(reduction.labelling.cost))
        if len(reduction.labelling):
            return True
        self._report(node, np.zeros(0, dtype=np.int64))
        return False

    def _eliminate(self, node: Node) -> bool:
        """Close a node without memory by its optimum, where elimination is cheap."""
        result = _eliminated(node.labelling)
        if result is None or not result.exact:
            return False
        if result.chosen is not None:
            self._report(node, np.array(result.chosen, dtype=np.int64))
        return True

    def _report(self, node: Node, labels: Integers) -> None:
        self.offer(labels if node.trail is None else node.trail.lift(labels))

    def _leave(self, node: Node, alive: Flags) -> None:
        """Remove labels; messages to the others stay."""
        b, sent = node.labelling, node.messages
        smaller, step = without_labels(b, alive)
        node.labelling, node.trail = smaller, Trail(step, node.trail)
        if sent is not None and node.share is not None:
            first, second = b.ends.T
            node.messages = sent[0][_lines(b, alive, second)], sent[1][_lines(b, alive, first)]
            node.share = node.share[alive]

    def _split(self, node: Node, dual: Dual) -> list[Node]:
        """Return two nodes that partition the plans of one."""
        split = splits(node.labelling, dual)
        operator, low = split
        keep(node, dual)
        children = []
        first = node.labelling.offsets[operator]
        for part in (low, ~low):
            alive = np.ones(len(node.labelling.cost), dtype=bool)
            alive[first : first + len(low)] = part
            child = replace(node)
            self._leave(child, alive)
            alive = possible_labels(child.labelling)
            if _everyone(child.labelling, alive):
                if not alive.all():
                    self._leave(child, alive)
                children.append(child)
        return children


def splits(labelling: Labelling, dual: Dual) -> tuple[int, Flags]:
    """Return the operator to split, and the flags of its labels in the first node.

    Usages are split where what messages favour pays for memory on both sides, more than elsewhere.
    """
    b = labelling
    sums = np.concatenate([[0.0], np.cumsum(dual.prices)])
    best, best_split = 0.0, None
    for i in range(len(b)):
        width = int(b.part_offsets[i + 1] - b.part_offsets[i])
        if not width or b.counts[i] < 2:
            continue
        parts = b.parts[b.part_offsets[i] : b.part_offsets[i + 1]]
        usage = b.usage[b.use_offsets[i] : b.use_offsets[i + 1]].reshape(-1, width)
        paid = usage @ (sums[parts[:, 1]] - sums[parts[:, 0]])
        share = dual.share[b.offsets[i] : b.offsets[i + 1]]
        for level in np.unique(paid)[:-1]:
            low = paid <= level
            here, there = share[low].sum(), share[~low].sum()
            if min(here, there) <= 0.0:
                continue
            apart = share[~low] @ paid[~low] / there - share[low] @ paid[low] / here
            score = min(here, there) / (here + there) * apart
            if score > best:
                best, best_split = score, (i, low)
    return best_split if best_split is not None else _by_label(b, dual)


def _by_label(b: Labelling, dual: Dual) -> tuple[int, Flags]:
    """Split the operator about which messages disagree most: its best labels against the rest."""
    best, best_split = -1.0, (0, np.zeros(0, dtype=bool))
    degree = np.bincount(b.ends.ravel(), minlength=len(b))
    for i in np.flatnonzero(b.counts > 1):
        share = dual.share[b.offsets[i] : b.offsets[i + 1]]
        order = np.argsort(-share, kind="stable")
        total = max(float(share.sum()), 1e-9)
        first = 1 + int(np.searchsorted(np.cumsum(share[order])[:-1], 0.5 * total))
        low = np.zeros(len(share), dtype=bool)
        low[order[: min(first, len(share) - 1)]] = True
        part = float(share[low].sum()) / total
        score = (min(part, 1.0 - part) + 0.01) * (1 + degree[i])
        if score > best:
            best, best_split = score, (int(i), low)
    return best_split


def keep(node: Node, dual: Dual) -> None:
    """Save messages and prices in the node."""
    node.prices, node.share = dual.prices.copy(), dual.share.copy()
    node.messages = dual.forward.copy(), dual.backward.copy()


def _everyone(labelling: Labelling, alive: Flags) -> bool:
    """Return whether every operator has a label left."""
    return bool(np.logical_or.reduceat(alive, labelling.offsets[:-1]).all())


def _lines(b: Labelling, alive: Flags, operators: Integers) -> Flags:
    """Return flags of the labels of these operators, concatenated."""
    sizes = b.counts[operators]
    starts = np.repeat(b.offsets[operators] - np.concatenate([[0], sizes.cumsum()[:-1]]), sizes)
    return np.asarray(alive[starts + np.arange(sizes.sum())])


def _eliminated(labelling: Labelling) -> Eliminated | None:
    """Eliminate a labelling without rows; ``None`` where its sums are too large."""
    b, count = labelling, len(labelling)
    own = [_costs(b.cost[b.offsets[i] : b.offsets[i + 1]]) for i in range(count)]
    pairs = [
        _costs(b.table[b.table_offsets[e] : b.table_offsets[e + 1]].reshape(b.counts[ends]))
        for e, ends in enumerate(b.ends)
    ]
    names = tuple(str(i) for i in range(count))
    kinds, links = tuple(range(count)), tuple(range(len(pairs)))
    ends = tuple((int(first), int(second)) for first, second in b.ends)
    problem = RepeatedProblem("", names, kinds, tuple(own), ends, links, tuple(pairs))
    try:
        return eliminate(problem, CAPS, partly=False)
    except InputError:
        return None


def _costs(table: Integers) -> CostTable:
    allowed = table < BAN
    return CostTable(np.where(allowed, table, 0), None if allowed.all() else allowed)
