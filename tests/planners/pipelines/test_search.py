"""The search for words meets brute force on tiny shops and known figures on larger ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.planners.arrays import halved, whole
from milp_plan.kinds.pipeline.planners.beam import Beam
from milp_plan.kinds.pipeline.planners.search import PipelineSearch, splice
from milp_plan.kinds.pipeline.planners.tables import tail_table
from milp_plan.kinds.pipeline.planners.tuning import Tuning
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.span import best_times
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Deadlock, fits, value_of

UNIT, REAL = (1, 1, 1), (10, 12, 7)


def shop(
    family: str,
    devices: int,
    micro_batches: int,
    times: tuple[int, int, int] = UNIT,
    *,
    cap: int | None = None,
    objective: Objective = Objective.MAKESPAN,
    channels: bool = False,
    transfer: int = 0,
) -> Shop:
    chunks = 2 if family in ("v", "interleaved") else 1
    template, activation = uniform(devices, micro_batches, times, chunks=chunks, transfer=transfer)
    if channels:
        template = replace(template, transfers=CommunicationModel.CHANNEL)
    memory = None if cap is None else cap * activation
    problem = pipeline_problem(
        "case", template, place(family, devices), memory_bytes=memory, objective=objective
    )
    found = shop_of(problem)
    assert found is not None
    return found


def orders(counts: dict[int, int], before: dict[int, int]) -> Iterator[list[int]]:
    """All words of a machine; ``before`` is a kind's predecessor on the machine."""
    if not any(counts.values()):
        yield []
        return
    for k, left in counts.items():
        if left and (k not in before or counts[before[k]] < left):
            for rest in orders(counts | {k: left - 1}, before):
                yield [k, *rest]


def optimum(case: Shop) -> int:
    """Best value over all words that fit."""
    choices = []
    for kinds in case.on_machine:
        chains = [
            [k for k in kinds if (case.kinds[k].route, case.kinds[k].block) == block]
            for block in sorted({(case.kinds[k].route, case.kinds[k].block) for k in kinds})
        ]
        before = {b: a for chain in chains for a, b in itertools.pairwise(chain)}
        choices.append(list(orders({k: case.kinds[k].count for k in kinds}, before)))
    best = None
    for words in itertools.product(*choices):
        if not fits(case, words):
            continue
        try:
            value = value_of(case, best_times(case, words))
        except Deadlock:
            continue
        best = value if best is None else min(best, value)
    assert best is not None
    return best


TINY = [
    ("line", 2, 3, None),
    ("line", 2, 3, 1),
    ("line", 2, 3, 2),
    ("line", 3, 2, 2),
    ("v", 2, 1, 1),
    ("dualpipe", 2, 2, 1),
    ("dualpipe", 2, 2, 2),
]


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
@pytest.mark.parametrize(("family", "devices", "micro_batches", "cap"), TINY)
@pytest.mark.parametrize("times", [UNIT, REAL, (2, 5, 1)])
def test_tiny_shops_are_solved(
    family: str,
    devices: int,
    micro_batches: int,
    cap: int | None,
    times: tuple[int, int, int],
    objective: Objective,
) -> None:
    case = shop(family, devices, micro_batches, times, cap=cap, objective=objective, transfer=1)
    search = PipelineSearch(case, 0)
    words, value = search.run(generations=9)
    assert fits(case, words)
    assert value == value_of(case, best_times(case, words)) == optimum(case)
    if objective is Objective.MAKESPAN:
        assert search.pools[0].beam.tables.least <= value


@pytest.mark.parametrize("family", ["line", "v", "interleaved", "dualpipe"])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
def test_plans_pass_the_checker(family: str, channels: bool, objective: Objective) -> None:
    case = shop(family, 4, 8, REAL, cap=3, objective=objective, channels=channels, transfer=1)
    seen: list[int] = []
    words, value = PipelineSearch(case, 1).run(generations=2, on_better=lambda _, v: seen.append(v))
    verdict = verify(case.problem, case.plan(best_times(case, words), "search"))
    assert verdict.ok, verdict.violations
    assert verdict.value == value == seen[-1]
    assert seen == sorted(set(seen), reverse=True)


KNOWN = [
    (("dualpipe", 4, 8, UNIT), 5, 25),
    (("dualpipe", 6, 12, UNIT), 7, 38),
    (("dualpipe", 8, 20, UNIT), 9, 63),
    (("dualpipe", 8, 20, UNIT), 6, 65),
    (("dualpipe", 4, 8, REAL), 5, 244),
    (("line", 8, 16, UNIT), 6, 61),
    (("line", 8, 16, REAL), 6, 693),
]
"""Best values known, proved optimal with other methods; times (10, 12, 7) with transfers of 1."""


@pytest.mark.parametrize(("case", "cap", "known"), KNOWN)
def test_known_values_are_reached(
    case: tuple[str, int, int, tuple[int, int, int]], cap: int, known: int
) -> None:
    family, devices, micro_batches, times = case
    found = shop(family, devices, micro_batches, times, cap=cap, transfer=int(times == REAL))
    words, value = PipelineSearch(found, 0, lower=known).run(generations=12)
    assert value == known == value_of(found, best_times(found, words))
    assert fits(found, words)


def test_a_seed_decides() -> None:
    case = shop("v", 3, 5, REAL, cap=2, transfer=1)
    one, two = (PipelineSearch(case, 7).run(generations=4) for _ in range(2))
    assert one == two


def test_start_words_are_never_lost() -> None:
    case = shop("line", 4, 8, REAL, cap=4, transfer=1)
    words, value = PipelineSearch(case, 0).run(generations=6)
    again = PipelineSearch(case, 1, start_words=words, lower=value)
    assert again.run(generations=1) == (words, value)
    assert again.done == 0  # the bound was met before anything ran


def test_too_little_memory_is_reported() -> None:
    template, _ = uniform(2, 2)
    problem = pipeline_problem("none", template, place("line", 2), memory_bytes=0)
    found = shop_of(problem)
    assert found is not None
    with pytest.raises(ValueError, match="memory is too small"):
        PipelineSearch(found, 0)


def test_only_mirror_images_are_halved() -> None:
    both = shop("dualpipe", 4, 8, REAL, cap=5, channels=True, transfer=2)
    half = halved(both)
    assert half is not None
    assert sum(half.count) * 2 == both.num_tasks
    words, _ = PipelineSearch(both, 0).run(generations=2)
    assert half.unfold(half.fold(words) or []) == words
    assert halved(shop("line", 4, 8)) is None
    assert halved(shop("dualpipe", 3, 4)) is None  # the middle device stays in place
    assert halved(shop("dualpipe", 4, 5)) is None  # one direction has more micro-batches


def test_tails_of_half_a_shop_are_no_smaller() -> None:
    both = shop("dualpipe", 4, 8, REAL, cap=5, transfer=1)
    half = halved(both)
    assert half is not None
    one, two = tail_table(whole(both)), tail_table(half)
    assert (one[list(half.kinds)] <= two).all()  # both directions load the same devices


@pytest.mark.parametrize("family", ["line", "v", "dualpipe"])
def test_tails_are_bounds(family: str) -> None:
    case = shop(family, 4, 6, REAL, cap=2, transfer=1)
    table = tail_table(whole(case))
    for seed in range(3):
        words, value = PipelineSearch(case, seed).run(generations=1)
        starts = best_times(case, words)
        for k, row in enumerate(starts):
            for n, start in enumerate(row):
                assert start + int(table[k, n]) <= value


def test_a_group_without_way_out_does_not_stop_the_others() -> None:
    case = shop("line", 3, 4)
    beam = Beam(whole(case))
    rng = np.random.default_rng(0)
    found = beam.run([Tuning(), Tuning()], 3, [beam.tables.least - 1, 10**6], rng)
    assert [entry.group for entry in found] == [1]
    assert beam.run([Tuning()], 3, [0], rng) == []


@pytest.mark.parametrize(("family", "transfer"), [("line", 0), ("v", 1), ("dualpipe", 2)])
def test_given_words_are_followed(family: str, transfer: int) -> None:
    case = shop(family, 4, 6, REAL, cap=3, transfer=transfer, channels=transfer == 2)
    words, value = PipelineSearch(case, 0).run(generations=1)
    beam = PipelineSearch(case, 0).pools[0].beam
    found = beam.follow(words)
    assert found is not None
    assert found.value == value
    assert beam.words(found.order) == words
    finished = 0
    for level, station in found.stations.items():
        assert station.state.count.sum() == level == len(station.order)
        again = beam.run([Tuning()], 4, [10**6], np.random.default_rng(0), starts=[station])
        assert all(entry.order[:level] == station.order for entry in again)
        finished += len(again)
    assert finished


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
def test_windows_improve_given_words(objective: Objective) -> None:
    case = shop("v", 3, 8, REAL, cap=2, transfer=1, objective=objective)
    poor, before = PipelineSearch(case, 0).run(generations=1)
    search = PipelineSearch(case, 0, start_words=poor)
    words, value = search.run(generations=8)
    assert search.pools[0].window_work > 0
    assert fits(case, words)
    assert value == value_of(case, best_times(case, words)) < before


def test_spliced_words_keep_their_beginning_and_the_old_order() -> None:
    assert splice([[2, 1], []], [[1, 1, 2, 2], [3, 4]]) == [[2, 1, 1, 2], [3, 4]]
