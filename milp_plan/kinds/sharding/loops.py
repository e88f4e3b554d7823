"""Compiled loops of the kind, called once on small problems."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.run.loop_parts import LoopPart

SHARDING = LoopPart(
    "sharding",
    "milp_plan.kinds.sharding.loops:run_sharding",
    "milp_plan.kinds.sharding.coarsen.steps:_best_labels",
)
SHARDING_SEARCH = LoopPart(
    "sharding search",
    "milp_plan.kinds.sharding.loops:run_sharding_search",
    "milp_plan.kinds.sharding.planners.trees:tree_search",
)
PARTS = (
    SHARDING,
    SHARDING_SEARCH,
)
"""All loop parts of the kind."""


def _shards(operators: int, seed: int) -> ShardingProblem:
    """Return a random sharding problem with memory; one operator must follow another."""
    rng = Random(seed)
    counts = [3, 3, *(rng.randint(2, 5) for _ in range(operators - 2))]
    edges: dict[tuple[int, int], list[list[int | None]]] = {
        (0, 1): [[0 if s == t else None for t in range(3)] for s in range(3)]
    }
    for a in range(1, operators):
        for b in rng.sample(range(a + 1, operators), min(3, operators - a - 1)):
            edges[a, b] = [[rng.randint(0, 99) for _ in range(counts[b])] for _ in range(counts[a])]
    usages = [[(i % 4 > 0) * rng.randint(1, 9) for _ in range(n)] for i, n in enumerate(counts)]
    return sharding_problem(
        "loops",
        [[rng.randint(0, 99) for _ in range(count)] for count in counts],
        usages=usages,
        intervals=[(i // 2, i // 2 + 4) for i in range(operators)],
        edges=edges,
        limit=45,
    )


def run_sharding() -> None:
    """Run the reductions, and the enumeration of a small remainder."""
    from .choice_bounds import best_choice
    from .coarsen import reduce_sharding

    for operators in (8, 4):
        for seed in range(3):
            left = reduce_sharding(_shards(operators, seed), math.inf)
            if left.infeasible_reason is None:
                best_choice(left.labelling)
                left.lift(np.zeros(len(left.labelling), dtype=np.int64))


def run_sharding_search() -> None:
    """Run the search after the reductions, without compiling their loops again."""
    from .coarsen.reading import labelling_of
    from .messages import Dual
    from .planners.decoding import decode
    from .planners.graph import graph_of
    from .planners.trees import tree_search

    labelling = labelling_of(_shards(30, 0))
    dual, graph = Dual(labelling), graph_of(labelling)
    dual.settle(1)
    dual.step(1, float(labelling.cost.sum()))
    labels = np.zeros(len(labelling), dtype=np.int64)
    costs = dual.priced(dual.prices)
    decode(graph, costs, dual.backward_offsets, dual.backward, labels)
    best = labels.copy()
    tree_search(graph, labels, best, dual.prices, 1, len(labels), 0.0, 0.0, 1.0, 0)
    dual.certified()
    dual.certificate().possible(int(labelling.cost.sum()))
