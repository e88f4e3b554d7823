"""From a choice for a problem to one for what reductions have left of it: a start.

Reductions keep an optimum, not every plan: labels that were dominated are gone. So a choice comes
down with gaps, and what is missing is chosen anew beside the neighbours that are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..labelling import BAN, Integers, Labelling
from .stage import ShardingReduction
from .steps import Contracted, EliminatedOperator, Relabelled

UNKNOWN = -1


def projected(reduction: ShardingReduction, labels: Integers) -> Integers:
    """Return labels of the smaller problem that are like the labels given, wherever those are left.

    Where none was lost on the way, undoing the reductions leads to a plan that costs no more.
    Whether the labels fit rows and masks is for the caller to find out.

    Parameters
    ----------
    reduction
        What was done.
    labels
        Of the problem before the first step: strategies.
    """
    for step in reduction.steps:
        labels = _LOWER[type(step)](step, labels)
    return _filled(reduction.labelling, labels)


def _relabelled(step: Relabelled, labels: Integers) -> Integers:
    """Look the old numbers up; those that were left out are unknown."""
    owner = np.repeat(np.arange(len(labels)), np.diff(step.offsets))
    found = np.flatnonzero(step.kept == labels[owner])
    lower = np.full(len(labels), UNKNOWN, dtype=np.int64)
    lower[owner[found]] = found - step.offsets[owner[found]]
    return lower


def _contracted(step: Contracted, labels: Integers) -> Integers:
    """Find the label of a merged operator from which those of its members follow."""
    count = int(step.root.max()) + 1 if len(step.root) else 0
    lower = np.full(count, UNKNOWN, dtype=np.int64)
    fits: dict[int, Any] = {}
    for old, root in enumerate(step.root.tolist()):
        if labels[old] != UNKNOWN:
            follows = step.label_map[step.map_offsets[old] : step.map_offsets[old + 1]]
            fits[root] = fits.get(root, True) & (follows == labels[old])
    for root, fit in fits.items():
        if fit.any():
            lower[root] = int(np.argmax(fit))
    return lower


def _eliminated(step: EliminatedOperator, labels: Integers) -> Integers:
    return np.asarray(labels[~step.gone])


_LOWER: dict[type, Callable[[Any, Integers], Integers]] = {
    Relabelled: _relabelled,
    Contracted: _contracted,
    EliminatedOperator: _eliminated,
}


def _filled(labelling: Labelling, labels: Integers) -> Integers:
    """Choose unknown labels one by one, cheapest beside the neighbours that are known."""
    b, labels = labelling, labels.copy()
    unknown = np.flatnonzero(labels == UNKNOWN)
    if not len(unknown):
        return labels
    near: dict[int, list[tuple[int, int]]] = {int(operator): [] for operator in unknown}
    for edge, ends in enumerate(b.ends.tolist()):
        for side, operator in enumerate(ends):
            if operator in near:
                near[operator].append((edge, side))
    for operator, edges in near.items():
        cost = b.cost[b.offsets[operator] : b.offsets[operator + 1]].copy()
        for edge, side in edges:
            other = labels[b.ends[edge, 1 - side]]
            if other != UNKNOWN:
                shape = tuple(b.counts[b.ends[edge]])
                table = b.table[b.table_offsets[edge] : b.table_offsets[edge + 1]].reshape(shape)
                line = table[:, other] if side == 0 else table[other]
                cost = np.where((line >= BAN) | (cost >= BAN), BAN, cost + np.minimum(line, BAN))
        labels[operator] = int(np.argmin(cost))
    return labels
