"""What people did before searching: data parallelism, strategies of experts, greedy choices.

All return one strategy number per operator of :func:`~pase_costs.pase_tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from pase_costs import Layer, LayerGraph, configurations

from milp_plan.core.sharding import Integers
from milp_plan.elimination.repeated import RepeatedProblem

Choice = tuple[int, ...]

PIPELINED = "lstm"
CLASSIFIER = ("linear", "softmax-cross-entropy")


def data_parallel(graph: LayerGraph, devices: int) -> Choice:
    """Split the samples of every layer over as many devices as its grain allows."""
    return _wished(graph, devices, lambda _: {"b": devices})


def experts(graph: LayerGraph, devices: int) -> dict[str, Choice]:
    """Strategies published for networks of such layers, by name.

    - ``one weird trick`` (Krizhevsky 2014), for networks with convolutions: samples everywhere, but
      output features of fully connected layers and classes of the loss.
    - ``data and pipeline``, for recurrent networks: layers of the recurrence on different devices,
      samples split within each.
    - ``mesh-tensorflow R x C`` (Shazeer et al. 2018), for attention: samples over rows of a mesh,
      vocabulary, hidden features and heads over its columns; one for each shape of the mesh.
    """
    kinds = {layer.kind for layer in graph.layers}
    found: dict[str, Choice] = {}
    if "conv" in kinds:
        found["one weird trick"] = _wished(graph, devices, lambda layer: _trick(layer, devices))
    if PIPELINED in kinds:
        found["data and pipeline"] = _wished(graph, devices, lambda layer: _stages(layer, devices))
    if "softmax" in kinds:
        for columns in (c for c in range(1, devices + 1) if devices % c == 0):
            mesh = {"b": devices // columns, "v": columns, "n": columns, "h": columns}
            name = f"mesh-tensorflow {devices // columns} x {columns}"
            found[name] = _wished(graph, devices, _always(mesh))
    return found


def _trick(layer: Layer, devices: int) -> Mapping[str, int]:
    return {"n": devices} if layer.kind in CLASSIFIER else {"b": devices}


def _stages(layer: Layer, devices: int) -> Mapping[str, int]:
    if layer.kind != PIPELINED:
        return {"b": devices}
    stages = max(n for n in range(1, layer.extents[0] + 1) if devices % n == 0)
    return {layer.loops[0]: stages, "b": devices // stages}


def _always(wish: Mapping[str, int]) -> Callable[[Layer], Mapping[str, int]]:
    return lambda _: wish


def _wished(graph: LayerGraph, devices: int, wish: Callable[[Layer], Mapping[str, int]]) -> Choice:
    """Per layer the configuration of most devices that splits no loop more than wished."""
    known: dict[Layer, int] = {}
    for layer in graph.layers:
        if layer not in known:
            rows = configurations(layer, devices)
            most = np.array([wish(layer).get(loop, 1) for loop in layer.loops])
            used = np.where((rows <= most).all(axis=1), rows.prod(axis=1), 0.0)
            known[layer] = int(used.argmax())
    return tuple(known[layer] for layer in graph.layers)


def greedy(problem: RepeatedProblem) -> Choice:
    """Choose for one operator after the other what is cheapest with those already chosen."""
    sides = around(problem)
    chosen: list[int] = []
    for operator in range(len(problem.operators)):
        known = [side for side in sides[operator] if side[0] < operator]
        chosen.append(int(_costs(problem, operator, known, chosen).argmin()))
    return tuple(chosen)


def descend(problem: RepeatedProblem, start: Choice) -> Choice:
    """Change one operator at a time to its best strategy until none improves."""
    sides = around(problem)
    chosen = list(start)
    waiting = set(range(len(chosen)))
    while waiting:
        operator = waiting.pop()
        costs = _costs(problem, operator, sides[operator], chosen)
        best = int(costs.argmin())
        if costs[best] < costs[chosen[operator]]:
            chosen[operator] = best
            waiting.update(other for other, _ in sides[operator])
    return tuple(chosen)


def around(problem: RepeatedProblem) -> list[list[tuple[int, Integers]]]:
    """Per operator its neighbours, and costs by the neighbour's strategy and its own."""
    turned = [np.ascontiguousarray(table.cost.T) for table in problem.pairs]
    sides: list[list[tuple[int, Integers]]] = [[] for _ in problem.operators]
    for (first, second), link in zip(problem.ends, problem.links, strict=True):
        sides[second].append((first, problem.pairs[link].cost))
        sides[first].append((second, turned[link]))
    return sides


def _costs(
    problem: RepeatedProblem,
    operator: int,
    sides: list[tuple[int, Integers]],
    chosen: list[int],
) -> Integers:
    costs = problem.own[problem.kinds[operator]].cost.copy()
    for other, table in sides:
        costs += table[chosen[other]]
    return costs
