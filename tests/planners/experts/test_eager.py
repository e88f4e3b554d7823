"""Eager 1F1B and warm-ups between it and 1F1B: published figures, memory, transfers that block."""

from __future__ import annotations

from fractions import Fraction

import pytest

from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS
from milp_plan.kinds.pipeline.model import Model, Piece
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import fits, memory_peaks, times, value_of

CASES = [
    (2, 16, Fraction(1, 2), 59, 52, 2, 3),
    (4, 16, Fraction(1, 2), 71, 60, 4, 7),
    (4, 32, Fraction(1), 157, 111, 4, 7),
    (8, 32, Fraction(1, 2), 151, 124, 8, 15),
]


def shop(stages, batches, transfer, cap=None):
    template, activation = uniform(
        stages, batches, (1, 1, 1), transfer=transfer, joint_backward=True
    )
    memory = None if cap is None else cap * activation
    problem = pipeline_problem("line", template, place("line", stages), memory_bytes=memory)
    found = shop_of(problem)
    assert found is not None
    return found, template.units.time_scale, activation


def makespan(found, words, scale):
    starts = times(found, words)
    stops = (row[-1] + kind.duration for kind, row in zip(found.kinds, starts, strict=True))
    return Fraction(max(stops), scale)


@pytest.mark.parametrize(("stages", "batches", "transfer", "plain", "eager", "low", "high"), CASES)
def test_published_figures(stages, batches, transfer, plain, eager, low, high):
    """R2: forward 1, backward 2, transfers beside the compute stream."""
    found, scale, activation = shop(stages, batches, transfer)
    known = {"1f1b": (plain, low), "eager_1f1b": (eager, high), "gpipe": (eager, batches)}
    for name, (value, peak) in known.items():
        words = WORDS[name](found)
        assert makespan(found, words, scale) == value
        assert memory_peaks(found, words)[0] == peak * activation
    assert eager == (batches + stages - 1) * 3 + 2 * (stages - 1) * transfer


@pytest.mark.parametrize(("stages", "batches", "transfer", "plain", "eager", "low", "high"), CASES)
def test_memory_between_the_two_peaks(stages, batches, transfer, plain, eager, low, high):
    """R2: less memory, fewer warm-ups; never slower with more, and somewhere strictly between."""
    found = []
    for cap in range(low, high + 1):
        limited, scale, _ = shop(stages, batches, transfer, cap)
        words = WORDS["fitted_1f1b"](limited)
        assert fits(limited, words)
        found.append(makespan(limited, words, scale))
        plan = EXPERTS["fitted_1f1b"](limited.problem)
        assert plan is not None
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (plain, eager)
    if high - low > 1:
        assert any(eager < value < plain for value in found)
    short, _, _ = shop(stages, batches, transfer, low - 1)
    assert EXPERTS["fitted_1f1b"](short.problem) is None


@pytest.mark.parametrize(("transfer", "blocked", "hidden", "ratio"), [
    (Fraction(1, 4), Fraction(263, 4), Fraction(231, 4), 1.14),
    (Fraction(1), Fraction(92), Fraction(60), 1.53),
])  # fmt: skip
def test_half_the_transfer_and_eager_against_transfers_that_block(transfer, blocked, hidden, ratio):
    """R3: four stages, sixteen micro-batches; the sender waits, against half of it and eager."""
    stages, batches, scale = 4, 16, 8
    rows = [
        Stage(
            int(scale * (1 + (transfer if s < stages - 1 else 0))),
            int(scale * (2 + (transfer if s else 0))),
            0,
        )
        for s in range(stages)
    ]
    template = Template(tuple(rows), batches, joint_backward=True)
    waiting = shop_of(pipeline_problem("wait", template, place("line", stages)))
    before = makespan(waiting, WORDS["1f1b"](waiting), scale)
    found, unit, _ = shop(stages, batches, transfer / 2)
    after = makespan(found, WORDS["eager_1f1b"](found), unit)
    assert (before, after) == (blocked, hidden)
    assert float(before / after) == pytest.approx(ratio, abs=0.005)


def test_no_device_runs_ahead_of_what_feeds_it() -> None:
    """A first stage with little memory: the second ran more forwards ahead than it was fed."""
    pieces = (Piece(1, 1, 1, 4), *(Piece(1, 1, 1, 1),) * 3)
    shop = shop_of(build(Case(Model(pieces), 4, 12, memory=16, joint_backward=True)).problem)
    assert shop is not None
    words = WORDS["fitted_1f1b"](shop)
    assert words is not None
    assert fits(shop, words)
    assert value_of(shop, times(shop, words)) <= value_of(shop, times(shop, WORDS["1f1b"](shop)))
