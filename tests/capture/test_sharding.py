"""Captured graphs as choices of placements: every number again from the labels."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import pairwise

import msgspec
import pytest

from milp_plan.capture.chosen import PlacementChoice, choices_of, chosen_placements, sources_of
from milp_plan.capture.layouts import collectives
from milp_plan.capture.nests import nested
from milp_plan.capture.placements import require_placements_of
from milp_plan.capture.sharding import CONSTANT, INPUT, UPDATE, sharding
from milp_plan.core import InputError
from milp_plan.core.sharding import ShardingPlan
from milp_plan.cost.devices import device_spec
from milp_plan.cost.mesh import mappings, mesh
from milp_plan.elimination.repeated import repeated
from milp_plan.elimination.search import eliminate
from milp_plan.io.capture_wire import Kernel, Tensor
from milp_plan.kinds.sharding.check import verify_sharding

from .graphs import kernel, shipped

MODELS = ("gpt2-tiny", "llama-tiny", "resnet50-tiny")
GRID = mesh("2", device_spec("A100"))


@cache
def problem_of(model, shape="2"):
    return sharding(shipped(model), mesh(shape, device_spec("A100")))


def random_plan(problem, rng):
    """A plan that keeps every edge: node by node, any strategy that its sources allow."""
    offsets = problem.strategies.offsets.tolist()
    counts = problem.strategies.counts.tolist()
    into = [[] for _ in counts]
    for edge, (source, reader) in enumerate(problem.transitions.ends.tolist()):
        into[reader].append((source, problem.table(edge)[1]))
    chosen = []
    for reader, count in enumerate(counts):
        fits = [
            pick
            for pick in range(count)
            if all(allowed[chosen[source], pick] for source, allowed in into[reader])
        ]
        if not fits:
            return None
        chosen.append(rng.choice(fits))
    assert len(offsets) == len(chosen) + 1
    return ShardingPlan(problem.name, tuple(chosen))


def random_plans(problem, seed, count):
    rng = random.Random(seed)
    found = []
    while len(found) < count:
        plan = random_plan(problem, rng)
        if plan is not None:
            found.append(plan)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_the_whole_step_is_there_once(model):
    capture, problem = shipped(model), problem_of(model)
    names = set(problem.operators)
    assert {INPUT + s.name for s in capture.storages if s.kind in {"parameter", "input"}} <= names
    assert {UPDATE + s.name for s in capture.storages if s.trained} <= names
    nodes = {kernel.name.removesuffix(":weights") for kernel in capture.kernels}
    assert nodes <= names
    assert {view.name for view in capture.views} <= names
    kinds = sum(s.kind != "result" for s in capture.storages)
    trained = sum(s.trained for s in capture.storages)
    assert len(names) == len(nodes) + len(capture.views) + kinds + trained


@pytest.mark.parametrize("model", MODELS)
def test_everything_whole_keeps_what_one_device_does_and_says_nothing(model):
    problem = problem_of(model)
    starts = problem.strategies.offsets.tolist()
    chosen = tuple(
        next(
            pick
            for pick in range(stop - start)
            if set(problem.labels[start + pick]) <= set("R,> -")
        )
        for start, stop in pairwise(starts)
    )
    plan = ShardingPlan(problem.name, chosen)
    assert verify_sharding(problem, plan).ok
    found = chosen_placements(problem, plan)
    require_placements_of(found, shipped(model))
    assert set(found.inputs.values()) == set(found.gradients.values()) == {"R"}
    assert (found.pins, found.reads, found.collectives) == ({}, {}, {})


@pytest.mark.parametrize(
    ("model", "shape"), [("gpt2-tiny", "2"), ("llama-tiny", "4"), ("resnet50-tiny", "2x2")]
)
def test_random_plans_say_every_change_once(model, shape):
    problem = problem_of(model, shape)
    changed = 0
    for plan in random_plans(problem, 1, 5):
        assert verify_sharding(problem, plan).ok
        found = chosen_placements(problem, plan)
        require_placements_of(found, shipped(model))
        choices, sources = choices_of(problem, plan), sources_of(problem)
        kept = {}
        for name, choice in zip(problem.operators, choices, strict=True):
            kept[name.removeprefix(INPUT).removeprefix(CONSTANT)] = choice.kept
        # walk through the file as PyTorch does
        for name, choice, given in zip(problem.operators, choices, sources, strict=True):
            if name.startswith((INPUT, UPDATE, CONSTANT)):
                continue
            here = [
                found.reads.get(name, {}).get(source, kept[source])
                for source in (
                    problem.operators[one].removeprefix(INPUT).removeprefix(CONSTANT)
                    for one in given
                )
            ]
            if not any(len(choices[one].raw) > 1 for one in given):
                assert here == list(choice.reads), name
            changed += len(found.reads.get(name, {}))
            assert found.pins.get(name, choice.raw[0] if choice.raw else "") == choice.kept
        copies = {(r, p) for table in found.reads.values() for r, p in table.items()}
        counted = sum(
            (collectives(kept[read], to) for read, to in copies), start=collectives("R", "R")
        )
        for name, to in found.pins.items():
            place = problem.operators.index(name)
            counted += collectives(choices[place].raw[0], to)
        for name, to in found.gradients.items():
            (source, _) = sources[problem.operators.index(UPDATE + name)]
            counted += collectives(choices[source].kept, to)
        for choice in choices:
            counted.update(choice.inside)
        assert dict(counted) == found.collectives
    assert changed > 20


def test_experts_or_their_matrices_are_cut_and_their_rows_are_not():
    read = ((12, 16), (4, 16, 24), (4,))
    call = kernel("transformers.grouped_mm_fallback.default", *read, result=(12, 24))
    found = {
        tuple(one for _, one in mapping): nested(call).written(mapping)[0]
        for mapping in mappings(nested(call).operator, GRID)
    }
    assert set(found) == {(), ("k",), ("e",), ("n",)}
    (axis,) = (axis.name for axis in GRID.axes)
    assert found["e",].partial == found["k",].partial == (axis,)
    assert found["n",].dims == ((), (axis,))


def test_a_tensor_without_elements_is_put_before_others_of_another_rank():
    read = (Tensor(0, (0,), "float32"), Tensor(1, (4, 8, 2), "float32"))
    made = (Tensor(2, (4, 8, 2), "float32"),)
    call = Kernel("k", "aten.cat.default", "forward", "", (read, -2), results=made)
    assert [tensor.loops for tensor in nested(call).operator.inputs] == [set(), {"a", "c"}]


def test_samples_of_a_normalisation_are_cut_with_one_exchange_for_each_axis():
    problem = problem_of("resnet50-tiny", "2x2")
    offsets = problem.strategies.offsets.tolist()
    seen = 0
    for place, name in enumerate(problem.operators):
        for label in problem.labels[offsets[place] : offsets[place + 1]]:
            choice = PlacementChoice.of(label)
            if "batch_norm" in name:
                assert len(choice.inside) == choice.reads[0].count("S(0)"), label
                assert "P" not in "".join(choice.raw), label
                seen += len(choice.inside) > 0
            else:
                assert not choice.inside, label
    assert seen > 50


def test_without_a_limit_the_best_plan_is_that_of_elimination_or_better_than_all_random_ones():
    problem = problem_of("gpt2-tiny")
    found = eliminate(repeated(problem))
    assert found.value is not None
    for plan in random_plans(problem, 2, 20):
        assert verify_sharding(problem, plan).value >= found.value


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"views": ()}, "views.*none"),
        ({"mode": "inference"}, "mode"),
    ],
)
def test_what_cannot_be_read_is_refused(change, said):
    capture = msgspec.structs.replace(shipped("gpt2-tiny"), **change)
    if "views" in change:
        capture = msgspec.structs.replace(capture, kernels=shipped("gpt2-tiny").kernels)
    with pytest.raises(InputError, match=said):
        sharding(capture, mesh("2", device_spec("A100")))


def test_damaged_views_are_refused_or_planned():
    whole, refused = shipped("gpt2-tiny"), []
    for seed in range(12):
        rng = random.Random(seed)
        views = list(whole.views)
        place = rng.randrange(len(views))
        old = views[place]
        read, *rest = old.arguments
        damaged = [
            msgspec.structs.replace(read, shape=read.shape[1:]),
            msgspec.structs.replace(read, shape=(*read.shape, 3)),
            msgspec.structs.replace(read, storage=len(whole.storages) - 1, view=None),
        ]
        views[place] = msgspec.structs.replace(old, arguments=(rng.choice(damaged), *rest))
        try:
            sharding(msgspec.structs.replace(whole, views=tuple(views)), GRID)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 6
    assert all("capture the model again" in said for said in refused)


@pytest.mark.parametrize("label", ["", "R", "R,R > R", "R > Q", "R,R,R > R > R > R"])
def test_labels_of_another_form_are_refused_with_their_node(label):
    problem = problem_of("gpt2-tiny")
    place = problem.operators.index("addmm")
    start = int(problem.strategies.offsets[place])
    labels = (*problem.labels[:start], label, *problem.labels[start + 1 :])
    plan = ShardingPlan("m", (0,) * len(problem.operators))
    with pytest.raises(InputError, match="label of 'addmm'"):
        chosen_placements(replace(problem, labels=labels), plan)


def test_a_mesh_of_another_form_is_refused():
    problem = problem_of("gpt2-tiny")
    reported = dict(problem.provenance) | {"mesh": "two"}
    plan = ShardingPlan("m", (0,) * len(problem.operators))
    with pytest.raises(InputError, match="'two'"):
        chosen_placements(replace(problem, provenance=reported), plan)


def test_plans_of_other_problems_have_no_placements():
    problem = replace(problem_of("gpt2-tiny"), provenance={})
    with pytest.raises(InputError, match="--sharding 2"):
        chosen_placements(problem, ShardingPlan("m", (0,) * len(problem.operators)))


@pytest.mark.parametrize(
    ("mask", "cut"),
    [((4, 8, 6, 6), {"b", "h"}), ((4, 1, 6, 6), {"b"}), ((1, 8, 6, 6), {"h"}), ((6, 6), set())],
)
def test_samples_and_heads_of_attention_are_cut_whatever_its_mask_has(mask, cut):
    read = tuple(Tensor(0, (4, 8, 6, 5), "float32") for _ in range(3))
    made = (Tensor(0, (4, 8, 6, 5), "float32"), Tensor(0, (4, 8, 6), "float32"))
    call = Kernel(
        *("k", "aten._scaled_dot_product_flash_attention_for_cpu.default", "forward", ""),
        (*read, 0.0, False),
        {"attn_mask": Tensor(0, mask, "float32")},
        made,
    )
    nest = nested(call)
    assert nest.operator.inputs[3].loops == cut
    for mapping in mappings(nest.operator, GRID):
        loops = {loop for _, loop in mapping}
        layout, sums = nest.written(mapping)
        assert {place for place, axes in enumerate(layout.dims) if axes} == {
            "bh".index(loop) for loop in loops
        }
        assert sums.dims == layout.dims[:3]
        assert not layout.partial
    assert len(list(mappings(nest.operator, GRID))) == 3
