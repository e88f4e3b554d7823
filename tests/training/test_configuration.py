"""What configurations can run, memory apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.training import Configuration, Recompute, Schedule, model, training_cluster
from milp_plan.kinds.training.configuration import even_layers

LLAMA = Configuration(tensor=8, pipeline=4, data=2, micro_batches=512)


def why_not(
    c: Configuration, name: str = "llama3-70b", cluster: str = "8x8xH100", batch: int = 1024
) -> str | None:
    return next(c.reasons(model(name), training_cluster(cluster), batch), None)


def test_a_configuration_that_can_run_has_no_reason_against_it() -> None:
    assert why_not(LLAMA) is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tensor": 0}, "below 1"),
        ({"data": 4}, "128 devices"),
        ({"micro_batch": 2}, "2048 samples"),
        ({"zero": 4}, "sharding"),
        ({"tensor": 16, "data": 1, "micro_batches": 1024}, None),
        ({"expert": 2}, "without experts"),
        ({"virtual": 2}, "1 virtual stage"),
        ({"virtual": 2, "schedule": Schedule.INTERLEAVED}, None),
        ({"schedule": Schedule.INTERLEAVED}, "at least 2 virtual"),
        ({"virtual": 3, "schedule": Schedule.ZB_V}, "2 virtual stages"),
        ({"zero": 3}, "stage 3"),
        ({"layers": (20, 20, 20, 20)}, None),
        ({"recompute": Recompute.FULL, "recomputed_by_chunk": (20, 3, 0, 0)}, None),
        ({"recompute": Recompute.ATTENTION, "recomputed_by_chunk": (20, 3, 0, 0)}, None),
        ({"recompute": Recompute.FULL, "recomputed_by_chunk": (21, 3, 0, 0)}, "at most (20, 20"),
        ({"recompute": Recompute.FULL, "recomputed_by_chunk": (20, 3, 0)}, "at most (20, 20"),
        ({"recomputed_by_chunk": (20, 3, 0, 0)}, "other than none"),
        (
            {"recompute": Recompute.FULL, "recomputed": 3, "recomputed_by_chunk": (2, 3, 0, 0)},
            "one of the two",
        ),
        ({"layers": (20, 20, 20, 21)}, "81 blocks"),
        ({"layers": (21, 20, 20, 20, -1)}, "5 chunks"),
    ],
)
def test_what_cannot_run_has_a_reason_in_one_sentence(change: dict, word: str | None) -> None:
    reason = why_not(replace(LLAMA, **change))
    assert reason is None if word is None else word in str(reason)


def test_tensor_ranks_divide_the_heads() -> None:
    odd = Configuration(tensor=3, micro_batches=8)
    assert "heads" in str(why_not(odd, "llama3-8b", "3xH100", 8))


def test_experts_lie_in_the_devices_of_a_stage() -> None:
    deepseek = "deepseek-v3", "256x8xH800", 15_360
    used = Configuration(*(1, 1, 64, 1, 16, 128, 1, 120), virtual=2, schedule=Schedule.DUALPIPE_V)
    assert why_not(used, *deepseek) is None
    assert used.expert_data == 2
    assert "256 experts" in str(why_not(replace(used, expert=48), *deepseek))


def test_chunks_go_round_or_out_and_back() -> None:
    ring = Configuration(pipeline=4, virtual=2, schedule=Schedule.INTERLEAVED)
    fold = Configuration(pipeline=4, virtual=2, schedule=Schedule.ZB_V)
    assert ring.chunks_of(0) == (0, 4)
    assert fold.chunks_of(0) == (0, 7)
    assert fold.chunks_of(3) == (3, 4)


def test_even_layers_spare_the_last_chunk() -> None:
    assert even_layers(80, 4) == (20, 20, 20, 20)
    assert even_layers(126, 16) == (7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7)
    assert sum(even_layers(61, 16)) == 61


def test_a_word_in_place_of_a_member_is_that_member() -> None:
    """A configuration with the text took the time and memory of one without recomputation."""
    spelled = Configuration(recompute="full", schedule="zb-h1", precision="fp8")  # type: ignore[arg-type]
    assert spelled.recompute is Recompute.FULL
    assert spelled.schedule is Schedule.ZB_H1
    with pytest.raises(InputError, match="recompute: found 'all', expected one of none, light"):
        Configuration(recompute="all")  # type: ignore[arg-type]
