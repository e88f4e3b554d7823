"""Memory against published formulas."""

from dataclasses import replace

import pytest

from milp_plan.kinds.training import (
    Architecture,
    Attention,
    Block,
    Configuration,
    Mlp,
    Recompute,
    Schedule,
    Software,
    training_cluster,
)
from milp_plan.kinds.training.memory import MemoryUse, device_memory, in_flight

HIDDEN, HEADS, SEQUENCE, LAYERS = 1024, 16, 512, 4


def gpt(vocabulary: int = 8) -> Architecture:
    block = Block(HIDDEN, Attention(HEADS, HEADS, 64), Mlp(4 * HIDDEN, gated=False), norm_bias=True)
    return Architecture("test", (block,) * LAYERS, vocabulary=vocabulary, sequence=SEQUENCE)


UNFUSED = Software("test", fused_attention=False, dropout=True)


def used(configuration: Configuration, software: Software = UNFUSED) -> tuple[MemoryUse, ...]:
    cluster = training_cluster(f"1x{configuration.devices}xA100")
    return device_memory(gpt(), cluster, configuration, SEQUENCE, software)


def test_unfused_activations_are_those_of_korthikanti() -> None:
    """34 s b h + 5 a s^2 b a layer, and 4 s b h before the head (arXiv:2205.05198, eq. 1, 4)."""
    b = 3
    layer = SEQUENCE * b * HIDDEN * 34 + 5 * HEADS * SEQUENCE**2 * b
    ends = 4 * SEQUENCE * b * HIDDEN
    (found,) = used(Configuration(micro_batch=b))
    assert found.activations_bytes == pytest.approx(LAYERS * layer + ends)


def test_sequence_parallelism_divides_them_by_the_tensor_degree() -> None:
    (whole,) = used(Configuration())
    (parts,) = used(Configuration(tensor=4))
    assert parts.activations_bytes == pytest.approx(whole.activations_bytes / 4)


def test_without_sequence_parallelism_norms_and_residuals_stay_whole() -> None:
    """s b h (10 + 24 / t) + 5 a s^2 b / t a layer (arXiv:2205.05198, eq. 2)."""
    (found,) = used(Configuration(tensor=4, sequence_parallel=False))
    layer = SEQUENCE * HIDDEN * (10 + 24 / 4) + 5 * HEADS * SEQUENCE**2 / 4
    assert found.activations_bytes == pytest.approx(LAYERS * layer + 4 * SEQUENCE * HIDDEN)


def test_full_recomputation_keeps_two_bytes_of_each_input() -> None:
    (found,) = used(Configuration(recompute=Recompute.FULL))
    assert found.activations_bytes == 2 * SEQUENCE * HIDDEN * (LAYERS + 2)


def test_attention_recomputation_drops_the_scores() -> None:
    (found,) = used(Configuration(recompute=Recompute.ATTENTION))
    assert found.activations_bytes == SEQUENCE * HIDDEN * (34 * LAYERS + 4)


@pytest.mark.parametrize(
    ("zero", "weights", "gradients", "optimizer"),
    [(0, 2, 4, 12), (1, 2, 4, 3), (2, 2, 1, 3), (3, 0.5, 1, 3)],
)
def test_sharding_divides_what_its_stage_says(
    zero: int, weights: float, gradients: float, optimizer: float
) -> None:
    (found,) = used(Configuration(data=4, zero=zero))
    parameters = gpt().parameters
    got = found.weights_bytes, found.gradients_bytes, found.optimizer_bytes
    expected = [parameters * each for each in (weights, gradients, optimizer)]
    assert got == pytest.approx(tuple(expected))


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_weights_of_frozen_blocks_take_memory_on_every_data_rank(zero: int) -> None:
    model, count = gpt(), 2
    frozen = replace(model.blocks[0], frozen=True, needs_input_gradient=False)
    some = replace(model, blocks=(frozen,) * count + model.blocks[count:])
    cluster, configuration = training_cluster("1x4xA100"), Configuration(data=4, zero=zero)
    (found,) = device_memory(some, cluster, configuration, SEQUENCE, UNFUSED)
    still = count * frozen.parameters
    trained = some.parameters - still
    parts = (found.weights_bytes, found.gradients_bytes, found.optimizer_bytes)
    sharded = [trained / 4 if zero >= level else trained for level in (3, 2, 1)]
    expected = (2 * (still + sharded[0]), 4 * sharded[1], 12 * sharded[2])
    assert parts == pytest.approx(expected)


def test_the_first_stage_of_1f1b_keeps_the_most() -> None:
    uses = used(Configuration(pipeline=4, micro_batches=8))
    activations = [each.activations_bytes for each in uses]
    assert activations[0] == 4 * activations[2] / 2
    assert activations == sorted(activations, reverse=True)


@pytest.mark.parametrize(
    ("schedule", "virtual", "first", "last"),
    [
        (Schedule.ONE_F_ONE_B, 1, 8, 1),
        (Schedule.ZB_H1, 1, 8, 1),
        (Schedule.GPIPE, 1, 64, 64),
        (Schedule.INTERLEAVED, 2, (15 + 8) / 2, (1 + 8) / 2),
        (Schedule.ZB_V, 2, 8, 8),
        (Schedule.V_HALF, 2, 5, 5),
    ],
)
def test_micro_batches_in_flight(
    schedule: Schedule, virtual: int, first: float, last: float
) -> None:
    configuration = Configuration(pipeline=8, micro_batches=64, virtual=virtual, schedule=schedule)
    assert (in_flight(configuration, 0), in_flight(configuration, 7)) == (first, last)


def test_no_more_micro_batches_than_there_are() -> None:
    assert in_flight(Configuration(pipeline=8, micro_batches=3), 0) == 3
