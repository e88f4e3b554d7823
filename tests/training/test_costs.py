"""Step times against hand calculations, with rates that make one term visible."""

import json
from dataclasses import replace
from typing import Any

import pytest

from milp_plan.kinds.training import (
    Architecture,
    Attention,
    Block,
    Configuration,
    DeviceRates,
    Efficiency,
    Mlp,
    Moe,
    Recompute,
    Schedule,
    Software,
    TrainingCluster,
    training_cluster,
)
from milp_plan.kinds.training.costs import NANO, StepTime, step_seconds, step_time
from milp_plan.kinds.training.efficiency import SHIPPED, shipped
from milp_plan.kinds.training.work import stage_works

HIDDEN, LAYERS, SEQUENCE, VOCABULARY = 4096, 8, 2048, 32_000
GPT = Architecture(
    "test",
    (Block(HIDDEN, Attention(32, 32, 128), Mlp(4 * HIDDEN, gated=False), norm_bias=True),) * LAYERS,
    vocabulary=VOCABULARY,
    sequence=SEQUENCE,
    tied=True,
)
BLOCKS = replace(GPT, vocabulary=1)
"""Without head and embedding."""

FAST = 1e9
"""A share so large that what it divides takes no time."""

PRODUCTS = DeviceRates(
    matrix=0.5,
    attention=0.5,
    memory=FAST,
    node=FAST,
    network=FAST,
    latency_ns=0.0,
    kernel_ns=0.0,
)
"""Rates under which matrix products and attention alone take time."""

QUIET = Software("test", launch_ns=0.0, step_ns=0.0, overlap=0.0)


def quick(name: str) -> TrainingCluster:
    """A cluster whose memory takes no time."""
    cluster = training_cluster(name)
    groups = tuple(
        replace(group, device=replace(group.device, memory_bytes_per_s=10**24))
        for group in cluster.groups
    )
    return replace(cluster, groups=groups)


def timed(
    configuration: Configuration,
    cluster: str = "1xA100",
    rates: DeviceRates = PRODUCTS,
    *,
    model: Architecture = GPT,
    software: Software = QUIET,
) -> StepTime:
    efficiency, on = Efficiency({"A100": rates, "V100": rates}, software), quick(cluster)
    works = stage_works(model, on, configuration, SEQUENCE, software)
    return step_time(works, on, configuration, efficiency)


def stages_of(configuration: Configuration, cluster: str) -> tuple[Any, ...]:
    """Seconds of the stages of equal blocks."""
    works = stage_works(BLOCKS, quick(cluster), configuration, SEQUENCE, QUIET)
    efficiency = Efficiency({"A100": PRODUCTS, "V100": PRODUCTS}, QUIET)
    return step_seconds(works, quick(cluster), configuration, efficiency).stages


def test_a_step_takes_the_operations_over_the_rate() -> None:
    """Forward 24 b s h^2 + 2 b s^2 h (half of the square) a layer, 2 b s h V head, 3 times that."""
    tokens = 2 * SEQUENCE
    layer = 24 * tokens * HIDDEN**2 + 2 * tokens * SEQUENCE * HIDDEN
    flops = 3 * (LAYERS * layer + 2 * tokens * HIDDEN * VOCABULARY)
    found = timed(Configuration(micro_batch=2, micro_batches=3)).total_ns
    assert found == pytest.approx(3 * flops / (0.5 * 312e12) * NANO, rel=1e-4)


def test_full_recomputation_adds_the_forward_pass_of_the_blocks() -> None:
    plain = timed(Configuration())
    full = timed(Configuration(recompute=Recompute.FULL))
    layer = 24 * SEQUENCE * HIDDEN**2 + 2 * SEQUENCE**2 * HIDDEN
    added = LAYERS * layer / (0.5 * 312e12) * NANO
    assert full.total_ns - plain.total_ns == pytest.approx(added, rel=1e-4)


def test_attention_recomputation_adds_its_core() -> None:
    plain = timed(Configuration())
    selective = timed(Configuration(recompute=Recompute.ATTENTION))
    added = LAYERS * 2 * SEQUENCE**2 * HIDDEN / (0.5 * 312e12) * NANO
    assert selective.total_ns - plain.total_ns == pytest.approx(added, rel=1e-3)


@pytest.mark.parametrize(
    ("schedule", "virtual", "share"),
    [(Schedule.ONE_F_ONE_B, 1, 1.0), (Schedule.GPIPE, 1, 1.0), (Schedule.INTERLEAVED, 2, 0.5)],
)
def test_the_bubble_is_p_minus_1_over_m(schedule: Schedule, virtual: int, share: float) -> None:
    """Without head and embedding all stages are equal: bubble / work = (p - 1) / (m v)."""
    configuration = Configuration(pipeline=4, micro_batches=16, virtual=virtual, schedule=schedule)
    found = timed(configuration, "4xA100", model=BLOCKS)
    assert found.bubble_ns / found.compute_ns == pytest.approx(share * 3 / 16, rel=1e-3)


def test_zero_bubble_h1_hides_products_for_weights() -> None:
    configuration = Configuration(pipeline=4, micro_batches=16, schedule=Schedule.ZB_H1)
    found = timed(configuration, "4xA100", model=BLOCKS)
    stage = stages_of(configuration, "4xA100")[0]
    bubble = 3 * (stage.forward + stage.backward - stage.weight)
    assert found.bubble_ns / NANO == pytest.approx(bubble, rel=1e-3)


def test_tensor_parallelism_sends_four_all_reduces_a_layer() -> None:
    rates = replace(PRODUCTS, node=0.5)
    found = timed(Configuration(tensor=4, sequence_parallel=False), "4xA100", rates)
    reduce = 2 * 3 / 4 * 2 * SEQUENCE * HIDDEN / (0.5 * 300e9) * NANO
    ends = 2 * reduce + 2 * 3 / 4 * 12 * SEQUENCE / (0.5 * 300e9) * NANO
    assert found.tensor_ns == pytest.approx(LAYERS * 4 * reduce + ends, rel=1e-3)


def test_parts_are_sent_to_the_next_stage_and_gathered_there() -> None:
    """A micro-batch of 4 ranks: b / 4 between nodes, and 3 / 4 b in the node, there and back."""
    rates = replace(PRODUCTS, node=0.5, network=0.5)
    c = Configuration(tensor=4, pipeline=2, sequence_parallel=False)
    found = {}
    for scattered in (False, True):
        software = replace(QUIET, scattered_sends=scattered)
        found[scattered] = timed(c, "2x4xA100", rates, software=software).transfer_ns
    boundary = 2 * SEQUENCE * HIDDEN * NANO
    assert found[False] == pytest.approx(2 * boundary / (0.5 * 25e9), rel=1e-3)
    parts = boundary / 4 / (0.5 * 25e9) + 3 / 4 * boundary / (0.5 * 300e9)
    assert found[True] == pytest.approx(2 * parts, rel=1e-3)


@pytest.mark.parametrize(("expert", "split"), [(4, 1), (2, 2), (1, 2), (2, 1), (1, 1)])
def test_split_experts_gather_tokens_and_scatter_sums(expert: int, split: int) -> None:
    """Forward: a device sends b to experts and back; the ranks of one share what each got.

    2 of 4 experts for each token, tensor 2: b is 2 bytes x 2 x tokens / 2 x hidden.
    """
    moe = Moe(4, 2, 1024)
    model = replace(BLOCKS, blocks=(replace(GPT.blocks[0], feed_forward=moe),))
    rates = replace(PRODUCTS, node=0.5)
    c = Configuration(tensor=2, data=2, expert=expert, expert_tensor=split)
    works = stage_works(model, quick("4xA100"), c, SEQUENCE, QUIET)
    sent = 2 * 2 * SEQUENCE / 2 * HIDDEN
    exchanged = 2 * (expert - 1) / expert * sent
    shared = 2 * (split - 1) / split * split * sent
    assert works[0].passes.forward.expert.node_bytes == pytest.approx(exchanged + shared)
    found = timed(c, "4xA100", rates, model=model)
    assert found.expert_ns == pytest.approx(
        2 * (exchanged + shared) / (0.5 * 300e9) * NANO, rel=1e-3
    )


def test_a_node_is_sent_a_token_once_and_spreads_it() -> None:
    """8 of 16 experts on at most 2 of 2 nodes: 2 of 8 copies, of which half stay."""
    model = replace(GPT, blocks=(replace(GPT.blocks[0], feed_forward=Moe(16, 8, 1024)),))
    limited = replace(GPT, blocks=(replace(GPT.blocks[0], feed_forward=Moe(16, 8, 1024, nodes=2)),))
    c = Configuration(data=8, expert=8)
    sent = 2 * SEQUENCE * 8 * HIDDEN
    for each, node, network in ((model, 3 / 8, 4 / 8), (limited, 3 / 4, 2 / 8 * 4 / 8)):
        traffic = stage_works(each, quick("2x4xA100"), c, SEQUENCE, QUIET)[0].passes.forward.expert
        assert traffic.node_bytes == pytest.approx(2 * node * sent)
        assert traffic.network_bytes == pytest.approx(2 * network * sent)


@pytest.mark.parametrize(("network", "hidden"), [(0.5, True), (0.001, False)])
def test_dualpipe_hides_traffic_of_experts_under_computation(network: float, hidden: bool) -> None:
    """What is longer of both remains: all the computation, or all the traffic."""
    moe = replace(GPT.blocks[0], feed_forward=Moe(16, 2, 1024))
    model, rates = replace(BLOCKS, blocks=(moe,) * 4), replace(PRODUCTS, network=network)
    times = {}
    for schedule in (Schedule.ZB_V, Schedule.DUALPIPE_V):
        c = Configuration(
            expert=8, pipeline=2, data=8, micro_batches=4, virtual=2, schedule=schedule
        )
        times[schedule] = timed(c, "4x4xA100", rates, model=model)
    waits, beside = times[Schedule.ZB_V], times[Schedule.DUALPIPE_V]
    assert waits.expert_ns > 0
    assert beside.compute_ns == pytest.approx(waits.compute_ns, rel=1e-6)
    assert (beside.expert_ns == 0) is hidden
    longer = max(waits.compute_ns, waits.expert_ns)
    assert beside.compute_ns + beside.expert_ns == pytest.approx(longer, rel=1e-6)


def test_gradients_are_reduced_once_a_step() -> None:
    """4 bytes a parameter, ring of 8 in one node, nothing hidden."""
    rates = replace(PRODUCTS, node=0.5)
    found = timed(Configuration(data=8, zero=0, micro_batches=4), "8xA100", rates)
    wire = 2 * 7 / 8 * 4 * GPT.parameters / (0.5 * 300e9) * NANO
    assert found.data_parallel_ns == pytest.approx(wire, rel=1e-3)


def test_a_host_that_launches_slowly_bounds_small_passes() -> None:
    slow = replace(QUIET, launch_ns=1e6)
    works = stage_works(GPT, quick("1xA100"), Configuration(), SEQUENCE, slow)
    kernels = sum(each.compute.kernels for each in works[0].passes)
    found = timed(Configuration(), software=slow)
    assert found.compute_ns == pytest.approx(kernels * 1e6, rel=1e-6)


def test_a_mixed_cluster_runs_each_stage_at_its_own_rate() -> None:
    first, second = stages_of(Configuration(pipeline=2), "1x1xA100+1x1xV100")
    assert second.forward / first.forward == pytest.approx(312 / 125, rel=1e-3)


@pytest.mark.parametrize("name", json.loads(SHIPPED.read_text())["software"])
def test_shipped_rates_are_shares(name: str) -> None:
    efficiency = shipped(name)
    assert efficiency.devices
    for rates in efficiency.devices.values():
        shares = (rates.matrix, rates.grouped, rates.attention, rates.memory)
        assert all(0 < share <= 1 for share in (*shares, rates.node, rates.network))
    assert efficiency.band.low <= efficiency.band.high


def test_an_unknown_framework_names_the_known_ones() -> None:
    with pytest.raises(Exception, match="nanotron"):
        shipped("no-such-thing")


def test_with_one_micro_batch_sharded_gradients_cost_what_a_sharded_optimizer_does() -> None:
    """Both scatter gradients once behind one backward pass, and gather parameters once."""
    rates, software = replace(PRODUCTS, node=0.01), replace(QUIET, overlap=0.5)
    for count in (1, 4):
        first, second = (
            timed(configuration, "8xA100", rates, software=software).data_parallel_ns
            for zero in (1, 2)
            for configuration in [Configuration(data=8, zero=zero, micro_batches=count)]
        )
        assert 0 < first <= second
        assert (first == second) == (count == 1)
