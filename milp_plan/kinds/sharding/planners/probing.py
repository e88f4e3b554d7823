"""Branch and bound over operators with many neighbours: each label is probed before a split.

One operator with hundreds of neighbours (a weight that all micro-batches read) may take a mixture
of labels in the local polytope, and each neighbour another one: that is where the relaxation loses
most, and no consistency within a neighbourhood finds it. With the label fixed the bound rises by a
good part of the gap whichever label it is. So nodes are split by all labels of one such operator.

**Proof of the bounds.** A split gives every label to one node, so the proof of
:mod:`.branching` holds. A label is probed with messages, passed a few times as if the
operator had no other label; any messages make a certificate, and its excess bounds the plans that
take the label (:mod:`.certificates`). A node whose bound reaches the best known
cost contains no better plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..labelling import Integers, Labelling
from ..messages import Dual
from .branching import Node, Tree, keep
from .graph import Floats

PASSES = 10
"""Passes of an ascent: prices follow the remaining labels."""

SENDS = 4
"""Passes up and down with which a label is probed."""

FIRST, KNOWN = 16, 2
"""Operators probed at the root, and later, in addition to one that was not probed before."""

WORTH = 0.01
"""Share of the gap that the best operator at the root must close for branching to begin."""


class ProbingTree(Tree):
    """The search from known messages; see :class:`.branching.Tree`.

    Parameters
    ----------
    dual
        Messages and prices to continue from.
    value, offer, over
        See :class:`.branching.Tree`.

    Attributes
    ----------
    worth
        Share of the gap that the first split closes; ``None`` before it.
    """

    reduces = False
    passes = PASSES

    def __init__(
        self,
        dual: Dual,
        value: Callable[[], int | None],
        offer: Callable[[Integers], object],
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(dual.labelling, value, offer, dual.certified(), over)
        root = self._open[0][2]
        keep(root, dual)
        self.degree = np.bincount(dual.labelling.ends.ravel(), minlength=len(dual.labelling))
        self.rises = np.full(len(dual.labelling), np.nan)
        self.worth: float | None = None

    def _examine(self, node: Node, passes: int) -> tuple[Node, Dual] | None:
        """Remove labels first that the split gave to others."""
        if node.waiting is not None:
            self._leave(node, node.waiting)
            node.waiting, node.family = None, 1
        return super()._examine(node, passes)

    def _split(self, node: Node, dual: Dual) -> list[Node]:
        """Return a node per label of the operator whose labels all raise the bound most."""
        keep(node, dual)
        best_split: tuple[int, int, list[int]] | None = None
        for operator in self._candidates(node.labelling, dual.share):
            if self.over():
                return [node]
            bounds = tried(dual, operator, self._far(node.bound))
            least = min(bounds) - node.bound
            self.rises[operator] = least
            if best_split is None or least > best_split[0]:
                best_split = least, operator, bounds
        if best_split is None:  # one choice is left: the next examination of the node uses it
            return [node]
        least, operator, bounds = best_split
        if self.worth is None:
            value = self.value()
            room = 0 if value is None else value - node.bound
            self.worth = least / max(1, room)
        first, labels = node.labelling.offsets[operator], len(bounds)
        children = []
        for x, bound in enumerate(bounds):
            alive = np.ones(len(node.labelling.cost), dtype=bool)
            alive[first : first + labels] = np.arange(labels) == x
            child = replace(node, bound=max(node.bound, bound), waiting=alive, family=labels)
            if not self._closed(child.bound):
                children.append(child)
        return children

    def _candidates(self, labelling: Labelling, share: Floats) -> Integers:
        """Return operators to probe: those that raised bounds most, some with torn neighbours."""
        b = labelling
        several = b.counts > 1
        total = np.maximum(np.add.reduceat(share, b.offsets[:-1]), 1e-9)
        torn = 1.0 - np.maximum.reduceat(share, b.offsets[:-1]) / total
        score = np.where(several, (1.0 + self.degree) * (torn + 0.02), -1.0)
        new = np.isnan(self.rises)
        number = FIRST if new.all() else 1
        fresh = _largest(np.where(new, score, -1.0), number)
        rises = np.maximum(np.nan_to_num(self.rises), 0.0)  # those that never raised one come last
        known = _largest(np.where(several & ~new, rises, -1.0), KNOWN)
        return np.concatenate([known, fresh])

    def _far(self, bound: int) -> float:
        """Return a cost at which a label is never the best."""
        value = self.value()
        return 10.0 * (1.0 + abs(bound) + abs(bound if value is None else value))


def tried(dual: Dual, operator: int, far: float) -> list[int]:
    """Return a bound per label of an operator, for plans that take it; the dual stays."""
    b = dual.labelling
    forward, backward = dual.forward.copy(), dual.backward.copy()
    costs = dual.priced(dual.prices)
    own = slice(int(b.offsets[operator]), int(b.offsets[operator + 1]))
    bounds = []
    for label in range(own.start, own.stop):
        others = costs.copy()
        others[own] += far
        others[label] = costs[label]
        for _ in range(SENDS):
            dual.send(others)
        dual.climb(others)
        proof = dual.certificate()
        bounds.append(proof.with_label(label))
        dual.forward[:], dual.backward[:] = forward, backward
    return bounds


def _largest(score: Floats, number: int) -> Integers:
    """Return the numbers of the largest scores that are not negative."""
    order = np.argsort(-score, kind="stable")[:number]
    return np.asarray(order[score[order] >= 0.0])
