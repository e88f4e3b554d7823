"""Pipelines in units: what problems count, and bounds that depend on no unit."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from milp_plan.core import Units
from milp_plan.kinds.pipeline.bounds import floors
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.model import Model, Piece
from milp_plan.kinds.pipeline.reading import read_shop


def drawn(seed: int) -> Case:
    """A small case in no unit, with zero times, and memory that is scarce."""
    rng = random.Random(seed)
    pieces = tuple(
        Piece(
            *(rng.choice((0, 1, 2, 3, 7)) for _ in range(2)),
            1,
            *(rng.randint(0, 3) for _ in "abcd"),
        )
        for _ in range(4)
    )
    most = max(sum(piece.sizes) for piece in pieces)
    memory = rng.choice((None, most, most + 2))
    return Case(Model(pieces, rng.choice((0, 1, 2))), rng.choice((2, 4)), 5, memory=memory)


def scaled(case: Case, time: int, size: int) -> Case:
    """The same case in smaller units."""
    pieces = tuple(
        Piece(*(t * time for t in piece.times), *(s * size for s in piece.sizes))
        for piece in case.model.pieces
    )
    model = replace(case.model, pieces=pieces, transfer=case.model.transfer * time)
    return replace(case, model=model, memory=None if case.memory is None else case.memory * size)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_depend_on_no_unit(seed: int) -> None:
    """Rounding up once for each release made bounds of a file in ms better than of one in us."""
    case = drawn(seed)
    one, two = (read_shop(build(c).problem) for c in (case, scaled(case, 10**6, 2**30)))
    assert not isinstance(one, str)
    assert not isinstance(two, str)
    assert [(f.name, f.value * 10**6) for f in floors(one)] == [
        (f.name, f.value) for f in floors(two)
    ]


@pytest.mark.parametrize(
    ("time", "size", "expected"),
    [
        ("ms", "GiB", Units("ms", "GiB", 10**6, 2**30)),
        ("s", "kB", Units("s", "kB", 10**9, 1000)),
        ("ns", "bytes", Units("ns", "bytes", 1, 1)),
        ("unspecified", "activations", Units("unspecified", "activations", 1, 1)),
    ],
)
def test_problems_count_nanoseconds_and_bytes_where_units_are_known(
    time: str, size: str, expected: Units
) -> None:
    pieces = (Piece(1, 1, 1, held_to_weight=1),) * 2
    case = Case(Model(pieces, time_unit=time, size_unit=size), 2, 2, memory=1)
    problem = build(case).problem
    assert problem.units == expected
    assert {device.memory_bytes for device in problem.cluster.devices} == {expected.size_scale}
    assert problem.graph.operators[0].options[0].duration_ticks == {"d0": expected.time_scale}


def test_parts_of_bytes_are_counted_exactly() -> None:
    """A third of a GiB is no number of bytes: what is counted is a third of a byte."""
    pieces = (Piece(1, 1, Fraction(1, 3), held_to_weight=Fraction(1, 3)),) * 2
    model = Model(pieces, time_unit="ms", size_unit="GiB")
    assert build(Case(model, 2, 2)).problem.units == Units("ms", "GiB", 3 * 10**6, 3 * 2**30)
