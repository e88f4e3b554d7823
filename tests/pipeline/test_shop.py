"""Templates become problems, problems are read as shops, words become checked plans."""

from __future__ import annotations

import dataclasses

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import read_shop, shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import BACKWARD, FORWARD, WEIGHT, pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Deadlock, fits, memory_peaks, times, value_of, words_of

CHUNKS = {"line": 1, "v": 2, "interleaved": 2, "dualpipe": 1, "wave": 4}


def all_forward_first(shop: Shop) -> list[list[int]]:
    """GPipe on any placement; channels in file order."""
    words: list[list[int]] = []
    for machine, kinds in enumerate(shop.on_machine):
        roles = (FORWARD, BACKWARD, WEIGHT)
        chosen = [[k for k in kinds if shop.kinds[k].role == role] for role in roles]
        if machine >= shop.num_devices:
            chosen = [list(kinds)]
        words.append([k for ks in chosen for k in ks for _ in range(shop.kinds[k].count)])
    return words


def shop(family: str, **options: object) -> Shop:
    template, _ = uniform(4, 6, (10, 12, 7), chunks=CHUNKS[family], **options)  # type: ignore[arg-type]
    found = shop_of(pipeline_problem("case", template, place(family, 4)))
    assert found is not None
    return found


@pytest.mark.parametrize("family", CHUNKS)
@pytest.mark.parametrize("transfer", [0, 3])
def test_words_become_a_plan_the_checker_accepts(family: str, transfer: int) -> None:
    case = shop(family, transfer=transfer)
    words = all_forward_first(case)
    starts = times(case, words)
    plan = case.plan(starts, "test")
    verdict = verify(case.problem, plan)
    assert verdict.ok, verdict.violations
    assert verdict.value == value_of(case, starts)
    assert verdict.components["peak_memory"] == max(memory_peaks(case, words))
    assert words_of(case, plan) == words


def test_span_is_checked_and_leaves_the_head_out() -> None:
    template, _ = uniform(4, 6, (1, 1, 1))
    problem = pipeline_problem("span", template, place("line", 4), objective=Objective.SPAN)
    case = shop_of(problem)
    assert case is not None
    starts = times(case, all_forward_first(case))
    verdict = verify(problem, case.plan(starts, "test"))
    assert verdict.value == value_of(case, starts) == verdict.components["span d0"]
    assert verdict.components["span d3"] == 18  # no bubble once it has started
    assert verdict.components["makespan"] == verdict.components["span d0"] == 24


def test_transfers_may_hold_channels() -> None:
    template, _ = uniform(3, 4, (2, 2, 2), transfer=5)
    template = dataclasses.replace(template, transfers=CommunicationModel.CHANNEL)
    case = shop_of(pipeline_problem("channels", template, place("line", 3)))
    assert case is not None
    assert case.machines == ("d0", "d1", "d2", "d0->d1", "d1->d2", "d2->d1", "d1->d0")
    words = all_forward_first(case)
    plan = case.plan(times(case, words), "test")
    assert verify(case.problem, plan).ok
    assert words_of(case, plan) == words


def test_heads_tails_and_work() -> None:
    case = shop("line", transfer=1)
    first = [k for k, kind in enumerate(case.kinds) if kind.machine == 3]
    assert sorted(case.heads[k] for k in first) == [33, 43, 55]
    assert case.work == (6 * 29,) * 4
    last_backward = next(k for k in first if case.kinds[k].role == BACKWARD)
    assert case.tails[last_backward] == 3 * 13 + 7


def test_memory_is_half_freed_at_the_backward() -> None:
    template, activation = uniform(2, 3, freed_at_backward=1 / 2)  # type: ignore[arg-type]
    case = shop_of(
        pipeline_problem("half", template, place("line", 2), memory_bytes=2 * activation)
    )
    assert case is not None
    assert activation == 2
    frees = {kind.role: kind.free for kind in case.kinds if kind.machine == 0}
    assert frees == {FORWARD: 0, BACKWARD: 1, WEIGHT: 1}
    words = all_forward_first(case)
    assert memory_peaks(case, words) == [6, 6]
    assert not fits(case, words)


def test_weights_lie_on_each_device_that_runs_the_stage() -> None:
    template, _ = uniform(2, 4)
    stages = tuple(
        dataclasses.replace(stage, parameter_bytes=100 + i)
        for i, stage in enumerate(template.stages)
    )
    template = dataclasses.replace(template, stages=stages)
    for family, held in (("line", [100, 101]), ("dualpipe", [201, 201])):
        problem = pipeline_problem(family, template, place(family, 2), memory_bytes=1000)
        case = shop_of(problem)
        assert case is not None
        assert list(case.limits) == [1000 - size for size in held]


def test_deadlock_names_a_task() -> None:
    case = shop("line")
    words = all_forward_first(case)
    with pytest.raises(Deadlock, match="runs 0 of 6 times"):
        times(case, [word[::-1] for word in words])


def test_what_is_not_a_shop_is_explained_in_words() -> None:
    template, _ = uniform(2, 2)
    free = pipeline_problem("free", template, None, devices=2)
    assert read_shop(free) == "operator 'B0@0' has 2 placements, not one device"
    peak = pipeline_problem("peak", template, place("line", 2), objective=Objective.PEAK_MEMORY)
    assert read_shop(peak) == "the objective is peak_memory, not makespan or span"


@pytest.mark.parametrize(
    ("family", "chunks", "message"),
    [("line", 2, "has 1 chunk"), ("star", None, "no placement family"), ("wave", 0, "at least 1")],
)
def test_bad_placements_are_named(family: str, chunks: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place(family, 4, chunks)


def test_routes_must_fit_the_template() -> None:
    template, _ = uniform(3, 2)
    with pytest.raises(ValueError, match="a route has 2 stages, expected 3"):
        pipeline_problem("short", template, place("line", 2))
