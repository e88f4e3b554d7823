"""Cases: models cut into stages, exactly, for every placement family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core import CommunicationModel, Objective
from milp_plan.kinds.pipeline.case import CUT, Case, build, cut_lines, grid
from milp_plan.kinds.pipeline.model import Model, Piece, most_even
from milp_plan.kinds.pipeline.placement import line
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem
from tests.support.brute import brute_force

UNIT = Model.from_share((1, 1, 1))


@pytest.mark.parametrize(
    ("family", "chunks"), [("line", None), ("v", None), ("interleaved", 4), ("dualpipe", None)]
)
def test_an_even_model_works_the_same_time_in_every_placement(
    family: str, chunks: int | None
) -> None:
    built = build(Case(UNIT, 4, 8, family, chunks, memory=5))
    shop = shop_of(built.problem)
    assert shop is not None
    scale = built.problem.units.time_scale
    assert built.work == 24 * scale
    assert shop.work == (24 * scale,) * 4
    assert shop.limits == (5 * built.problem.units.size_scale,) * 4


def test_decimals_stay_exact() -> None:
    model = Model.from_share((Fraction("0.1"), Fraction("0.2"), Fraction(1, 3)), Fraction("0.05"))
    problem = build(Case(model, 2, 2, "v")).problem
    assert problem.units.time_scale == 60
    ticks = {op.kind: op.options[0].duration_ticks for op in problem.graph.operators[:3]}
    assert [next(iter(entry.values())) for entry in ticks.values()] == [3, 6, 10]
    assert {channel.latency_ticks for channel in problem.cluster.channels} == {3}


def test_a_smaller_micro_batch_takes_less_of_all_but_parameters() -> None:
    model = Model((Piece(4, 4, 2, 1, 1, 2, 100),) * 2, transfer=1)
    built = build(Case(model, 2, 4, batch=Fraction(1, 2), memory=150))
    shop = shop_of(built.problem)
    assert shop is not None
    assert sorted(kind.duration for kind in shop.kinds) == [1, 1, 2, 2, 2, 2]
    assert {lag for _, _, lag in shop.arcs} == {0, 1}
    assert shop.limits == (50 * built.problem.units.size_scale,) * 2
    assert shop.work == (20, 20)


def test_channels_and_objective() -> None:
    case = Case(Model.from_share((1, 1, 1), 1), 2, 2, channels=True, objective=Objective.SPAN)
    problem = build(case).problem
    assert problem.cluster.communication is CommunicationModel.CHANNEL
    assert problem.objective is Objective.SPAN
    assert problem.name == "line-2x2-span"


def lengths(times: Sequence[int | Fraction], cut: Sequence[int]) -> list[int | Fraction]:
    """Time of each stage."""
    return [sum(times[b - count : b]) for b, count in zip(accumulate(cut), cut, strict=True)]


TIMES = st.lists(
    st.integers(0, 9) | st.integers(0, 10**9) | st.fractions(0, 9, max_denominator=9),
    min_size=2,
    max_size=7,
)


@given(TIMES, st.data())
def test_the_cut_is_the_most_even_one(times: list[int | Fraction], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(times)))
    cut = most_even([Piece(time, 0, 0) for time in times], stages)
    found = lengths(times, cut)
    assert sum(found) == sum(times)
    assert len(found) == stages
    best = min(
        max(sum(times[a:b]) for a, b in zip((0, *cuts), (*cuts, len(times)), strict=True))
        for cuts in combinations(range(1, len(times)), stages - 1)
    )
    assert max(found) == best


def test_thousands_of_pieces_are_cut() -> None:
    """Every cut was compared with every other, in fractions: a thousand pieces took seconds."""
    times = [1 + number % 7 for number in range(20_000)]
    cut = most_even([Piece(time, 0, 0) for time in times], 8)
    assert sum(cut) == 20_000
    assert max(lengths(times, cut)) <= 10_003


def test_too_few_pieces_are_named() -> None:
    with pytest.raises(ValueError, match="2 pieces cannot be cut into 4 stages"):
        build(Case(Model((Piece(1, 1, 1),) * 2), 2, 2, "v"))


def test_a_cut_says_what_each_stage_runs_and_where() -> None:
    pieces = (Piece(1, 1, 1, name="embedding"), *(Piece(1, 1, 1),) * 3, Piece(1, 1, 1, name="head"))
    built = build(Case(Model(pieces), 2, 2, "v", cut=(1, 2, 1, 1)))
    assert built.cut == (1, 2, 1, 1)
    assert [str(share) for share in built.shares] == [
        "piece 0 (embedding) on d0",
        "pieces 1-2 on d1",
        "piece 3 on d1",
        "piece 4 (head) on d0",
    ]
    assert built.problem.provenance[CUT] == "1 | 2 | 1 | 1"
    assert cut_lines(built.problem)[:2] == [
        "cut 1 | 2 | 1 | 1",
        "  stage 0: piece 0 (embedding) on d0",
    ]
    both = build(Case(Model(pieces), 2, 2, "dualpipe"))
    assert [share.devices for share in both.shares] == [("d0", "d1"), ("d1", "d0")]
    assert cut_lines(build(Case(UNIT, 2, 2)).problem) == []


@pytest.mark.parametrize("cut", [(3,), (1, 1), (2, 2), (3, 0), (1, 1, 1)])
def test_what_is_no_cut_is_refused(cut: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="is no cut of 3 pieces into 2 stages"):
        build(Case(Model((Piece(1, 1, 1),) * 3), 2, 2, cut=cut))


def test_every_cut_counts_in_the_same_ticks_and_bytes() -> None:
    """Halves that add up to a whole had another scale: cuts could not be compared."""
    halves = Model((Piece(Fraction(1, 2), 1, 1, Fraction(1, 2)),) * 4)
    scales = {
        (found.problem.units.time_scale, found.problem.units.size_scale)
        for found in (build(Case(halves, 2, 2, cut=cut)) for cut in ((2, 2), (3, 1), (1, 3)))
    }
    assert scales == {(2, 2)}


@pytest.mark.parametrize("seed", range(20))
def test_an_input_gradient_without_time_on_the_first_stage_may_wait(seed: int) -> None:
    """What it makes counts with the weight gradient alone: the optimum is the same."""
    rng = Random(seed)
    first = Piece(rng.randint(1, 9), 0, rng.randint(1, 9), 0, rng.randint(0, 9), rng.randint(1, 9))
    second = Piece(*(rng.randint(0, 9) for _ in range(3)), 0, rng.randint(0, 9))
    limit = rng.randint(9, 30)
    model = Model((first, second), rng.randint(0, 2))
    made = grid(Case(model, 2, 2, memory=limit)).template((1, 1))
    stage = made.stages[0]
    assert stage.workspace_bytes
    assert not stage.gradient_bytes
    spelled = replace(stage, gradient_bytes=stage.workspace_bytes, workspace_bytes=0)
    values = []
    for one in (made, replace(made, stages=(spelled, made.stages[1]))):
        problem = pipeline_problem("waits", one, line(2), memory_bytes=limit)
        found = brute_force(problem)
        values.append(found and found[0])
    assert values[0] == values[1]
