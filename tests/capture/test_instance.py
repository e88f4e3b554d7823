"""Captured graphs as planning problems: nothing lost, nothing twice, work the same everywhere."""

import random

import pytest

from milp_plan.capture.fuse import alone, fused
from milp_plan.capture.instance import instance
from milp_plan.capture.merge import GRANULARITIES, merged
from milp_plan.capture.optimizers import OPTIMIZERS
from milp_plan.capture.passes import block_of, kinds
from milp_plan.capture.record import made_by, read_by
from milp_plan.core import FULL, UPDATE_KIND, InputError
from milp_plan.cost.clusters import cluster
from milp_plan.kinds.schedule.formats import read, write

from .graphs import NAMES, random_capture, shipped

TWO = cluster("2xA100")
MIXED = cluster("1xH100+1xV100")


def work(problem) -> dict[str, int]:
    found: dict[str, int] = {}
    for operator in problem.graph.operators:
        (option,) = operator.options
        for name, ticks in option.duration_ticks.items():
            found[name] = found.get(name, 0) + ticks
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fuse", [True, False])
def test_total_work_is_the_same_at_every_granularity(name, fuse):
    problems = [
        instance(shipped(name), MIXED, granularity=granularity, fuse=fuse)
        for granularity in GRANULARITIES
    ]
    assert len({tuple(sorted(work(problem).items())) for problem in problems}) == 1
    sizes = [len(problem.graph.operators) for problem in problems]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_total_work_is_the_same_for_random_graphs():
    for seed in range(40):
        capture = random_capture(random.Random(seed), random.Random(seed).randint(2, 30))
        problems = [instance(capture, MIXED, granularity=entry) for entry in GRANULARITIES]
        assert len({tuple(sorted(work(problem).items())) for problem in problems}) == 1


def test_sizes_are_those_we_know():
    """Operators by kernel, module and block, of fused kernels with updates."""
    sizes = {
        name: tuple(
            len(instance(shipped(name), TWO, granularity=entry).graph.operators)
            for entry in GRANULARITIES
        )
        for name in ("gpt2-four", "gpt2-small", "resnet50", "llama")
    }
    assert sizes == SIZES


SIZES = {
    "gpt2-four": (146, 124, 32),
    "gpt2-small": (402, 340, 64),
    "resnet50": (448, 426, 82),
    "llama": (306, 176, 29),
}


@pytest.mark.parametrize("name", [*NAMES, "random"])
def test_every_kernel_is_in_one_part(name):
    captures = (
        [random_capture(random.Random(seed), 20) for seed in range(20)]
        if name == "random"
        else [shipped(name)]
    )
    for capture in captures:
        places, kind = list(range(len(capture.kernels))), kinds(capture)
        for units in (fused(capture), alone(capture)):
            assert sorted(place for unit in units for place in unit) == places
            for granularity in GRANULARITIES:
                parts = merged(capture, units, granularity)
                assert sorted(place for part in parts for place in part.kernels) == places
                assert all(kind[place] == part.kind for part in parts for place in part.kernels)


def test_fusing_moves_fewer_bytes_and_launches_fewer_kernels():
    for name in ("llama", "resnet50", "gpt2-four"):
        capture = shipped(name)
        assert len(fused(capture)) < len(alone(capture))
        both = [work(instance(capture, TWO, fuse=fuse))["A100"] for fuse in (True, False)]
        assert both[0] < both[1]


def test_values_are_storages_that_cross_operators():
    capture = shipped("llama-tiny")
    problem = instance(capture, TWO, granularity="kernel", fuse=False)
    made, read = made_by(capture), read_by(capture)
    sizes = {value.name: value.bytes[FULL] for value in problem.graph.values}
    kept = {result.storage for result in capture.results}
    for place, storage in enumerate(capture.storages):
        crosses = any(reader != made.get(place) for reader in read[place]) or place in kept
        if crosses:
            assert sizes[storage.name] == storage.bytes
        else:
            assert storage.name not in sizes


def test_what_a_merged_operator_holds_is_the_peak_of_running_it():
    """A dumb replay of each operator: make results, free what is read for the last time."""
    for capture in (
        shipped("gpt2-tiny"),
        shipped("resnet50-tiny"),
        random_capture(random.Random(5), 40),
    ):
        problem = instance(capture, TWO, granularity="block")
        made, read = made_by(capture), read_by(capture)
        kept = {result.storage for result in capture.results}
        parts = merged(capture, fused(capture), "block")
        held = []
        for part in parts:
            own = [
                storage
                for storage, place in made.items()
                if place in part.kernels
                and storage not in kept
                and set(read[storage]) <= set(part.kernels)
            ]
            alive: set[int] = set()
            peak = 0
            for place in part.kernels:
                alive |= {storage for storage in own if made[storage] == place}
                peak = max(peak, sum(capture.storages[s].bytes for s in alive))
                alive = {s for s in alive if any(reader > place for reader in read[s])}
            held.append(peak)
        assert held == [
            operator.options[0].workspace_bytes
            for operator in problem.graph.operators
            if operator.kind != UPDATE_KIND
        ]
        assert max(held) > 0


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_readers_and_updater_of_a_parameter_share_a_device(granularity):
    capture = shipped("gpt2-four")
    problem = instance(capture, TWO, granularity=granularity)
    trained = {s.name for s in capture.storages if s.trained}
    assert len(trained) == 52
    for value in problem.graph.values:
        if value.name in trained:
            groups = {problem.graph.operator(name).group for name in value.consumers}
            assert len(groups) == 1
            assert None not in groups
    tied = {
        problem.graph.operator(name).group for name in problem.graph.value("wte.weight").consumers
    }
    assert len(tied) == 1
    groups = set(problem.graph.groups)
    assert len(groups) >= {"kernel": 20, "module": 20, "block": 7}[granularity]


@pytest.mark.parametrize(
    ("optimizer", "state", "moved"), [("adamw", 8, 28), ("momentum", 4, 20), ("sgd", 0, 12)]
)
def test_an_update_keeps_and_moves_what_its_optimizer_says(optimizer, state, moved):
    assert OPTIMIZERS[optimizer].state_bytes(4) == state
    assert OPTIMIZERS[optimizer].moved_bytes(4) == moved
    problem = instance(shipped("gpt2-four"), TWO, optimizer=optimizer)
    kept = sum(v.bytes[FULL] for v in problem.graph.values if v.name.endswith(".U.state"))
    parameters = sum(s.bytes for s in shipped("gpt2-four").storages if s.trained) // 4
    assert kept == state * parameters


def test_short_numbers_have_a_master_copy():
    adam = OPTIMIZERS["adamw"]
    assert (adam.state_bytes(2), adam.moved_bytes(2)) == (12, 28)


def test_every_gradient_reaches_an_update():
    for name in ("gpt2-tiny", "resnet50-tiny", "llama-tiny"):
        capture = shipped(name)
        problem = instance(capture, TWO, granularity="module")
        updates = {op.name for op in problem.graph.operators if op.kind == UPDATE_KIND}
        for result in capture.results:
            if result.kind == "gradient":
                value = problem.graph.value(capture.storages[result.storage].name)
                assert set(value.consumers) & updates


def test_weights_wait_for_nothing_but_the_update():
    for name in NAMES:
        capture = shipped(name)
        kind, read = kinds(capture), read_by(capture)
        made = made_by(capture)
        for storage, place in made.items():
            if kind[place] == "backward-weight":
                assert {kind[reader] for reader in read[storage]} <= {"backward-weight"}
    weights = [k for k in kinds(shipped("resnet50")) if k == "backward-weight"]
    assert len(weights) >= 53


def test_an_instance_is_written_and_read_again(tmp_path):
    problem = instance(shipped("resnet50-tiny"), MIXED, granularity="module")
    write(problem, tmp_path / "p.json")
    assert read(tmp_path / "p.json").fingerprint == problem.fingerprint
    assert "PyTorch 2.13.0" in problem.provenance["captured with"]


def test_a_path_ends_at_its_first_index():
    assert block_of("h.3.attn.out") == "h.3"
    assert block_of("encoder.layers.0.blocks.1") == "encoder.layers.0"
    assert block_of("head") == "head"
    assert block_of("") == ""


def test_what_is_asked_for_must_be_known():
    with pytest.raises(InputError, match="one of kernel, module, block"):
        instance(shipped("gpt2-tiny"), TWO, granularity="layer")
    with pytest.raises(InputError, match="one of adamw, momentum, sgd"):
        instance(shipped("gpt2-tiny"), TWO, optimizer="lion")
