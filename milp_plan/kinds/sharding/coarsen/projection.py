"""Projects a choice for a problem to its reduction, as a start.

Reductions preserve an optimum, not every plan: dominated labels are gone. So a projected choice
has gaps, which are filled in the context of known neighbours.
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
    """Return labels of the smaller problem that are like the given labels, where those remain.

    Where none was lost, undoing the reductions leads to a plan that costs no more. The caller must
    check whether the labels fit rows and masks.

    Parameters
    ----------
    reduction
        The reduction.
    labels
        Labels of the problem before the first step: strategies.
    """
    for step in reduction.steps:
        labels = _LOWER[type(step)](step, labels)
    return _filled(reduction.labelling, labels)


def _relabelled(step: Relabelled, labels: Integers) -> Integers:
    """Look the old numbers up; those that were removed are unknown."""
    owner = np.repeat(np.arange(len(labels)), np.diff(step.offsets))
    matches = np.flatnonzero(step.kept == labels[owner])
    lower = np.full(len(labels), UNKNOWN, dtype=np.int64)
    lower[owner[matches]] = matches - step.offsets[owner[matches]]
    return lower


def _contracted(step: Contracted, labels: Integers) -> Integers:
    """Find the label of a merged operator that implies those of its members."""
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
    """Choose unknown labels one by one, cheapest given the known neighbours."""
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
