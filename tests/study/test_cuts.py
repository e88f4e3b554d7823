"""Cuts and plans chosen together, beside every cut by hand and each solved by enumeration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from random import Random

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.kinds.pipeline.case import Case, build, grid
from milp_plan.kinds.pipeline.case_sweep import Point, plan_case
from milp_plan.kinds.pipeline.cuts import Cuts
from milp_plan.kinds.pipeline.model import Cut, Model, Piece
from milp_plan.run import Settings
from tests.support.brute import brute_force
from tests.support.seeds import few

SETTINGS = Settings(time_limit_s=8)


def random_case(seed: int) -> Case:
    """A few uneven pieces on two or three devices, with a limit that some cuts keep."""
    rng = Random(seed)
    family, devices, batches, joint = rng.choice(
        [
            ("line", 2, rng.randint(1, 3), False),
            ("line", 2, 3, True),
            ("line", 3, 2, rng.random() < 0.7),
            ("v", 2, 2, True),
            ("interleaved", 2, 1, rng.random() < 0.7),
            ("dualpipe", 2, 2, True),
        ]
    )
    stages = 4 if family in ("v", "interleaved") else devices
    ticks = rng.choice([5, 60, 10**9])
    size = rng.choice([4, 100, 10**10])

    def amount(most: int, zero: float) -> int:
        return 0 if rng.random() < zero else rng.randint(1, most)

    zero = rng.choice([0, 0, 0.3])
    pieces = [
        Piece(
            *(amount(ticks, zero) for _ in range(3)),
            *(amount(size, chance) for chance in (0.5, 0.2, 0.6)),
            amount(2 * size, 0.4),
            arrives=amount(size, 0.7),
        )
        for _ in range(stages + rng.randint(0, 2))
    ]
    if rng.random() < 0.2:
        pieces = [replace(p, forward=Fraction(p.forward, 2)) for p in pieces]
    transfer = rng.choice([0, 0, amount(ticks, 0.2)])
    objective = rng.choice([Objective.MAKESPAN, Objective.MAKESPAN, Objective.SPAN])
    workspace = rng.choice([0, 0, amount(size, 0)])
    model = Model(tuple(pieces), transfer, workspace=workspace)
    case = Case(model, devices, batches, family, joint_backward=joint, objective=objective)
    if rng.random() < 0.15:
        return case
    needed = sorted(least_memory(replace(case, cut=cut)) for cut in every_cut(case, stages))
    return replace(
        case, memory=rng.choice(needed) * rng.choice([1, 1, Fraction(5, 4), 2, Fraction(9, 10)])
    )


def every_cut(case: Case, stages: int) -> list[Cut]:
    """All cuts, by their borders."""
    count = len(case.model.pieces)
    borders = combinations(range(1, count), stages - 1)
    return [tuple(b - a for a, b in pairwise((0, *inner, count))) for inner in borders]


def least_memory(case: Case) -> int:
    """Memory for one micro-batch of each stage of a device at a time; only a scale for limits."""
    stages = by_hand(case).model.pieces
    return int(max(sum(piece.sizes) + case.model.workspace for piece in stages))


def by_hand(case: Case) -> Case:
    """The same pipeline, each stage written down as one piece."""
    assert case.cut is not None
    rest, stages = list(case.model.pieces), []
    for count in case.cut:
        mine, rest = rest[:count], rest[count:]
        stages.append(
            Piece(
                sum(p.forward for p in mine),
                sum(p.backward for p in mine),
                sum(p.weight for p in mine),
                sum(p.held_to_backward for p in mine),
                sum(p.held_to_weight for p in mine),
                sum(p.gradient for p in mine),
                sum(p.parameters for p in mine),
                arrives=mine[0].arrives,
            )
        )
    return replace(case, model=replace(case.model, pieces=tuple(stages)), cut=None)


def best_of_every_cut(case: Case, stages: int) -> Fraction | None:
    """Least value of any cut, by enumeration of cuts and plans."""
    values = []
    for cut in every_cut(case, stages):
        made = build(by_hand(replace(case, cut=cut)))
        found = brute_force(made.problem)
        if found is not None:
            values.append(Fraction(found[0], made.problem.units.time_scale))
    return min(values, default=None)


def held_against_enumeration(seed: int) -> Point:
    """Hold an answer against enumeration: whatever it claims is true, with a proof or without."""
    case = random_case(seed)
    best = best_of_every_cut(case, grid(case).stages)
    point = plan_case(case, SETTINGS)
    outcome = point.outcome
    if outcome.infeasible_reason is not None:
        assert best is None, seed
        assert outcome.record["cuts"]["all_decided"]
    if outcome.plan is not None:
        assert verify(build(replace(case, cut=point.built.cut)).problem, outcome.plan).ok, seed
        assert best is not None
        assert point.time is not None
        assert point.bound is not None
        assert point.bound <= best <= point.time, seed
    if outcome.proved:
        assert point.time == best, seed
    return point


def claims(points: Iterable[Point]) -> tuple[int, int, int]:
    """Count proofs of optimality, proofs that no plan exists, and answers."""
    outcomes = [point.outcome for point in points]
    none = sum(outcome.infeasible_reason is not None for outcome in outcomes)
    return sum(outcome.proved for outcome in outcomes), none, len(outcomes)


@pytest.mark.parametrize("first", few(range(0, 550, 25), 1))
def test_cut_and_plan_are_the_best_of_all(first: int) -> None:
    proved, none, answers = claims(map(held_against_enumeration, range(first, first + 25)))
    assert proved > answers / 3
    assert none > 1


@pytest.mark.parametrize("seed", few(range(200), 20))
def test_what_later_stages_need_is_the_least_over_all_ends(seed: int) -> None:
    case = random_case(seed)
    cuts = Cuts(grid(case))
    count = len(case.model.pieces)
    for stage in range(cuts.stages):
        last = count - (cuts.stages - stage - 1)
        behind = cuts.rest[stage + 1]
        for a in range(stage, last):
            ends = range(a + 1, last + 1)
            least = min(max(cuts._cell(stage, a, b), behind[b]) for b in ends)
            assert cuts.rest[stage][a] == least, (seed, stage, a)
