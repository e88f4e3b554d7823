"""Decodes messages into a choice of labels."""

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled

from ..labelling import Integers
from .graph import Floats, Graph


@compiled
def decode(
    g: Graph,
    costs: Floats,
    backward_offsets: Integers,
    backward: Floats,
    labels: Integers,
) -> None:
    """Choose label after label, from the first operator to the last.

    Each takes the best one given the labels chosen before it; the messages speak for the others
    (Kolmogorov, IEEE PAMI 28, 2006). ``costs`` are those of labels with memory at its price.
    """
    for i in range(len(labels)):
        first, count = g.offsets[i], g.offsets[i + 1] - g.offsets[i]
        belief = costs[first : first + count].copy()
        for q in range(g.starts[i], g.starts[i + 1]):
            j, e = g.neighbours[q], g.edges[q]
            if g.ends[e, 0] == i:
                for x in range(count):
                    belief[x] += backward[backward_offsets[e] + x]
            else:
                at = g.table_offsets[e] + labels[j] * count
                for x in range(count):
                    belief[x] += g.table[at + x]
        labels[i] = np.argmin(belief)
