"""Layers, mirrors and micro-batches are found by structure, whatever things are called."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from milp_plan.core import Option, PlanningProblem
from milp_plan.kinds.schedule.planners.constructions.structure import Pass, structure
from milp_plan.zoo import generate

CASES = [
    ("gpt-tiny", 1, "fine"),
    ("gpt-tiny", 2, "fine"),
    ("gpt-tiny", 4, "block"),
    ("resnet50", 2, "fine"),
    ("inception_v3", 1, "fine"),
    ("inception_v3", 2, "fine"),
    ("unet", 2, "fine"),
    ("clip-vit-b32", 2, "block"),
]


def disguised(problem: PlanningProblem, rng: Random) -> tuple[PlanningProblem, dict[str, str]]:
    """The problem with other names in another order, and what each operator was called."""
    graph = problem.graph
    order = list(graph.operators)
    rng.shuffle(order)
    names = {operator.name: f"o{rank}" for rank, operator in enumerate(order)}
    groups = {group: f"g{rank}" for rank, group in enumerate(graph.groups)}
    shuffled = rng.sample(graph.values, len(graph.values))
    value_names = {value.name: f"v{rank}" for rank, value in enumerate(shuffled)}

    def renamed(option: Option) -> Option:
        reads = {value_names[name]: layout for name, layout in option.reads.items()}
        writes = {value_names[name]: layout for name, layout in option.writes.items()}
        return replace(option, reads=reads, writes=writes)

    operators = tuple(
        replace(
            operator,
            name=names[operator.name],
            block=None,
            options=tuple(map(renamed, operator.options)),
            group=None if operator.group is None else groups[operator.group],
        )
        for operator in order
    )
    values = tuple(
        replace(
            value,
            name=value_names[value.name],
            producer=None if value.producer is None else names[value.producer],
            consumers=tuple(names[name] for name in value.consumers),
        )
        for value in shuffled
    )
    other = replace(problem, graph=replace(graph, operators=operators, values=values))
    return other, {new: old for old, new in names.items()}


@pytest.mark.parametrize(("name", "batches", "granularity"), CASES)
def test_layers_are_those_that_the_graph_was_made_of(
    name: str, batches: int, granularity: str
) -> None:
    problem = generate(name, "2xA100", batch=8, micro_batches=batches, granularity=granularity)
    problem, called = disguised(problem, Random(batches))
    found = structure(problem)
    view = found.view
    assert found.num_batches == batches
    assert found.trains
    # Layer "x" of the architecture has operators x.F, x.B, x.W, x.U, and x.A for a sum.
    places: dict[str, dict[str, int]] = {}
    for operator in range(view.num_operators):
        layer, role = called[view.names[operator]].split("@")[0].rsplit(".", 1)
        places.setdefault(layer, {})[role] = found.layer_of[view.unit[operator]]
    assert len({place["F"] for place in places.values()}) == len(places)
    apart = [layer for layer, place in places.items() if "B" in place and place["B"] != place["F"]]
    near = [abs(places[layer]["B"] - places[layer]["F"]) <= 4 for layer in apart]
    assert all(near)  # nor far away
    assert len(apart) <= len(places) // 40  # where an addition before fits as well
    copies = {called[view.names[operator]].split("@")[0] for operator in found.template}
    assert len(copies) == len(found.template)
    assert len(copies) == len({name.split("@")[0] for name in called.values()})


def test_layers_go_from_the_first_to_the_last() -> None:
    problem = generate("gpt-tiny", "2xA100", batch=8, micro_batches=2)
    found = structure(problem)
    view = found.view
    first = [
        min(view.position[op] for op in view.units[units[0]] if found.batch[op] == 0)
        for units in found.layers
        if any(found.passes[op] is Pass.FORWARD for op in view.units[units[0]])
    ]
    assert first == sorted(first)
    assert len(first) > 10
    assert sorted(unit for units in found.layers for unit in units) == list(range(len(view.units)))


def test_a_graph_of_one_pass_is_one_micro_batch() -> None:
    problem = generate("gpt-tiny", "2xA100", batch=8, mode="inference")
    found = structure(problem)
    assert not found.trains
    assert found.num_batches == 1
    assert len(found.template) == found.view.num_operators
    assert set(found.passes) == {Pass.FORWARD}


def test_micro_batches_that_share_nothing_are_placed_one_by_one() -> None:
    problem = generate("gpt-tiny", "2xA100", batch=8, mode="inference", micro_batches=2)
    operators = tuple(replace(operator, group=None) for operator in problem.graph.operators)
    apart = replace(problem, graph=replace(problem.graph, operators=operators))
    assert len(structure(problem).template) * 2 == len(operators)
    assert len(structure(apart).template) == len(operators)
    assert structure(apart).repeats == 1
