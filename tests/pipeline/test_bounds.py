"""No combinatorial bound passes the optimum, and each bites where it should."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from milp_plan.core import Objective
from milp_plan.kinds.pipeline.bounds import (
    best_floor,
    floors,
    head_work_tail,
    longest_path,
    memory_arcs,
    memory_path,
    one_machine,
    ramps,
)
from milp_plan.kinds.pipeline.frames import anchored, colours, frames, whole
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import memory_peaks
from tests.support.seeds import few
from tests.support.shops import pipeline_shop as shop
from tests.support.shops import random_tiny_shop
from tests.support.words import least_value


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_no_bound_passes_the_optimum(seed: int) -> None:
    case = random_tiny_shop(seed)
    best = least_value(case)
    assert best is not None
    assert {floor.name: floor.value for floor in floors(case) if floor.value > best} == {}
    assert best_floor(case).value == max(floor.value for floor in floors(case))


@pytest.mark.slow
def test_no_bound_passes_2000_optima() -> None:
    decided = 0
    for seed in range(2000):
        case = random_tiny_shop(seed)
        best = least_value(case)
        found = {floor.name: floor.value for floor in floors(case)}
        assert best is not None
        assert max(found.values()) <= best, (seed, found, best)
        decided += found.pop("ramps") == best > max(found.values())
    assert decided > 100  # optima that nothing else proves


def test_the_longest_path_is_one_micro_batch() -> None:
    case = shop("line", 4, 1, (10, 12, 7), transfer=1)
    assert longest_path(case, whole(case)).value == 4 * 22 + 7 + 6


@pytest.mark.parametrize("devices", [4, 6, 8])
def test_the_bidirectional_bubble_is_half_a_fill(devices: int) -> None:
    """bubble >= (p/2 - 1) F, the known bound for DualPipe's placement."""
    case = shop("dualpipe", devices, 2 * devices, (3, 4, 2))
    found = head_work_tail(case, whole(case))
    assert found.value == 2 * devices * 9 + (devices // 2 - 1) * 3


def test_memory_gives_a_period() -> None:
    """Room for L activations and a latency R: R / L per micro-batch in the long run."""
    values = []
    for batches in (42, 84):
        case = shop("line", 8, batches, (10, 12, 7), transfer=1, cap=3)
        values.append(memory_path(case, whole(case)).value)
    latency = 8 * 22 + 7 + 14
    assert values[1] - values[0] == 14 * latency


def test_memory_arcs_follow_the_room() -> None:
    case = shop("line", 2, 6, cap=3)
    names = [kind.name for kind in case.kinds]
    arcs = {(names[w], names[a], back) for w, a, back in memory_arcs(case)}
    assert ("W0", "F0", 3) in arcs
    assert ("W1", "F1", 3) in arcs
    assert not memory_arcs(shop("line", 2, 6))


def test_a_split_release_gives_arcs_from_both() -> None:
    template, activation = uniform(2, 6, freed_at_backward=Fraction(1, 2))
    case = shop_of(pipeline_problem("s", template, place("line", 2), memory_bytes=2 * activation))
    assert case is not None
    names = [kind.name for kind in case.kinds]
    arcs = {(names[w], names[a], back) for w, a, back in memory_arcs(case)}
    assert {("B0", "F0", 2), ("W0", "F0", 3)} <= arcs


@pytest.mark.parametrize(
    ("batches", "cap", "times", "transfer", "value"),
    [
        (16, 6, (1, 1, 1), 0, 61),
        (20, 6, (1, 1, 1), 0, 73),
        (64, 6, (1, 1, 1), 0, 205),
        (16, 8, (10, 12, 7), 1, 597),
        (16, 12, (10, 12, 7), 1, 555),
    ],
)
def test_one_machine_reaches_known_optima(
    batches: int, cap: int, times: tuple[int, int, int], transfer: int, value: int
) -> None:
    """Optima of eight stages on a line, found and proved by other solvers."""
    case = shop("line", 8, batches, times, transfer, cap)
    assert one_machine(case, whole(case)).value == value
    assert value > head_work_tail(case, whole(case)).value


def test_ramps_count_what_memory_holds_on_either_side() -> None:
    """The last device of a V waits for the first micro-batch, and at the end for the last.

    All doubled, F, B, W of a chunk are 10, 12, 7 and a transfer is 2; 16 chunks fit. Before the
    first B of the last device 16 forward passes fit; when its last F is done, 16 chunks have B and
    W left while the last micro-batch is away.
    """
    case = shop("v", 8, 32, (10, 12, 7), 1, cap=8)
    first_back = (16 * 10 + 14 * 2) + 7 * (12 + 2)
    idle_before = first_back - 16 * 10
    away = 7 * (10 + 2) + 8 * 12 + 7 * 2 + 12 + 7 * (12 + 2) + 7
    idle_after = away - 16 * (12 + 7)
    work = 32 * 2 * (10 + 12 + 7)
    assert min(idle_before, idle_after) > 0
    assert ramps(case, whole(case)).value == work + idle_before + idle_after


def test_ramps_prove_unequal_times_on_two_routes() -> None:
    """616 is the value of a plan that the search finds; the other arguments end at 613."""
    case = shop("dualpipe", 8, 20, (10, 12, 7), transfer=1, cap=9)
    assert best_floor(case).value == ramps(case, whole(case)).value == 616
    assert one_machine(case, whole(case)).value == 613


def test_ramps_need_a_limit() -> None:
    case = shop("v", 4, 8)
    assert ramps(case, whole(case)).value == 0


def test_the_span_leaves_the_head_out() -> None:
    case = shop("line", 4, 6, (3, 5, 2), objective=Objective.SPAN)
    found = {floor.name: floor.value for floor in floors(case)}
    # Within the span of the first device, the last runs all its F and B: way in, work, way out.
    assert found["head, work, tail"] == 3 * 3 + 6 * 8 + 3 * 5 + 2
    assert found["longest path"] == 4 * 8 + 2
    last = anchored(case, 3)
    assert [case.kinds[k].name for k, head in enumerate(last.heads) if head is None] == [
        "F0",
        "F1",
        "F2",
    ]


def test_colours_merge_what_is_mirrored() -> None:
    case = shop("dualpipe", 4, 8)
    kind_of, machine_of = colours(case)
    assert len(set(kind_of)) == len(case.kinds) // 2
    assert machine_of[0] == machine_of[3] != machine_of[1] == machine_of[2]
    assert len(set(colours(case, anchor=0)[1])) == 4
    assert len(frames(case, span=True)) == 2
    line = shop("line", 4, 8)
    assert len(set(colours(line)[0])) == len(line.kinds)


def test_tiny_shops_are_limited_by_memory() -> None:
    """Otherwise the test against enumeration says nothing about memory."""
    rng = Random(0)
    tight = sum(bool(memory_arcs(random_tiny_shop(rng.randrange(10**6)))) for _ in range(20))
    assert tight >= 5
    assert memory_peaks(shop("line", 1, 1), [[0, 1, 2]]) == [1]
