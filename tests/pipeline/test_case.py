"""Cases: models cut into stages, exactly, for every placement family."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core import CommunicationModel, Objective
from milp_plan.pipeline import Case, Model, Piece, build, shop_of

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
    ticks = {op.kind: op.options[0].duration_ns for op in problem.graph.operators[:3]}
    assert [next(iter(entry.values())) for entry in ticks.values()] == [3, 6, 10]
    assert {channel.latency_ns for channel in problem.cluster.channels} == {3}


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


TIMES = st.lists(
    st.integers(0, 9) | st.integers(0, 10**9) | st.fractions(0, 9, max_denominator=9),
    min_size=2,
    max_size=7,
)


@given(TIMES, st.data())
def test_the_cut_is_the_most_even_one(times: list[int | Fraction], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(times)))
    model = Model(tuple(Piece(time, 0, 0) for time in times))
    found = [piece.forward for piece in model.cut(stages, stages)]
    assert sum(found) == sum(times)
    assert len(found) == stages
    best = min(
        max(sum(times[a:b]) for a, b in zip((0, *cuts), (*cuts, len(times)), strict=True))
        for cuts in combinations(range(1, len(times)), stages - 1)
    )
    assert max(found) == best


def test_thousands_of_pieces_are_cut() -> None:
    """Every cut was compared with every other, in fractions: a thousand pieces took seconds."""
    model = Model(tuple(Piece(1 + number % 7, 0, 0) for number in range(20_000)))
    found = [piece.forward for piece in model.cut(8, 8)]
    assert sum(found) == 79_997
    assert max(found) <= 10_003


def test_too_few_pieces_are_named() -> None:
    with pytest.raises(ValueError, match="2 pieces cannot be cut into 4 stages"):
        build(Case(Model((Piece(1, 1, 1),) * 2), 2, 2, "v"))
