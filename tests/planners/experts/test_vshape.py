"""ZB-V, V-Half and V-Min against closed forms and the figures of the authors' scheduler."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective, PlanningProblem
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS
from milp_plan.kinds.pipeline.experts.building_blocks import PERIOD, repeated, v_half, v_min
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem, uniform

from .figures import Figures, Times

NAMES = ("zb_v", "v_half", "v_min")


def figures(
    name: str, p: int, m: int, fbw: Times = (2, 2, 2), c: int = 0, early: Fraction | int = 0
) -> Figures:
    template, activation = uniform(p, m, fbw, transfer=c, chunks=2, freed_at_backward=early)
    shop = shop_of(pipeline_problem("case", template, place("v", p), objective=Objective.SPAN))
    assert shop is not None
    words = WORDS[name](shop)
    assert words is not None
    return Figures(shop, words, template.units.time_scale, activation)


@pytest.mark.parametrize("p", range(1, 10))
@pytest.mark.parametrize("early", [0, Fraction(1, 2)])
def test_zb_v_has_no_bubble_in_its_span(p: int, early: Fraction) -> None:
    """F = B = W: span without a bubble, makespan (p−1)F/2 longer, p activations (2401.10241)."""
    for m in (2 * p, 2 * p + 3):
        found = figures("zb_v", p, m, early=early)
        assert found.span_bubble == 0
        assert found.bubble == p - 1
        assert max(found.peaks) == p


@pytest.mark.parametrize("p", range(2, 10))
def test_memory_of_building_blocks(p: int) -> None:
    """(p+2)//2 and (p+4)//3 activations: half and a third of 1F1B's p (arXiv 2405.15362)."""
    assert max(figures("v_half", p, 2 * p).peaks) == (p + 2) // 2
    assert max(figures("v_min", p, 2 * p).peaks) == (p + 4) // 3


@pytest.mark.parametrize("p", [3, 4, 6, 8])
def test_bubbles_of_building_blocks(p: int) -> None:
    """At most half and two thirds of 1F1B's (p−1)(F+B+W) at F = B = W (arXiv 2405.15362).

    The less memory the more bubble, whatever the number of micro-batches.
    """
    bubbles = {}
    for name in NAMES:
        found = {figures(name, p, m).bubble for m in (2 * p, 2 * p + 3)}
        assert len(found) == 1
        bubbles[name] = found.pop()
    one_f_one_b = (p - 1) * 6
    assert bubbles["zb_v"] < bubbles["v_half"] <= one_f_one_b * Fraction(1, 2)
    assert bubbles["v_half"] <= bubbles["v_min"] <= one_f_one_b * Fraction(2, 3)


@pytest.mark.parametrize("block", [v_half, v_min])
def test_blocks_repeat_without_collisions(block: object) -> None:
    for p in range(1, 20):
        found = block(p)  # type: ignore[operator]
        for legs in found:
            assert len({slot % PERIOD for slot in legs}) == 4
            assert list(legs) == sorted(legs)
        for leg, step in ((0, 1), (1, -1), (2, 1), (3, -1)):
            slots = [legs[leg] for legs in found][::step]
            assert slots == sorted(set(slots))


def test_weights_take_idle_slots_after_their_gradient() -> None:
    grid = repeated(v_min(4), 6)
    grid.fill_weights()
    for rows, weights in zip(grid.legs, grid.weights, strict=True):
        busy = {slot for row in rows for slot in row}
        gradients = sorted(rows[2] + rows[3])
        assert len(weights) == len(gradients) == 12
        assert not busy & set(weights)
        assert all(w > b for w, b in zip(weights, gradients, strict=True))


@pytest.mark.parametrize(
    ("name", "fbw", "c", "makespan", "span", "peak"),
    [
        ("zb_v", (1, 1, 1), 0, "63.5", "60", 8),
        ("zb_v", (10, 12, 7), 1, "655", "651.5", 8),
        ("v_half", (1, 1, 1), 0, "68.5", "68.5", 5),
        ("v_half", (10, 12, 7), 1, "748.5", "748.5", 5),
        ("v_min", (1, 1, 1), 0, "73.5", "73.5", 4),
        ("v_min", (10, 12, 7), 1, "982.5", "982.5", 4),
    ],
)
def test_eight_devices_twenty_micro_batches(
    name: str, fbw: Times, c: int, makespan: str, span: str, peak: int
) -> None:
    """Figures of sail-sg's scheduler, its orders timed by a simulation of its own."""
    early = Fraction(1, 2) if name == "zb_v" else 0
    found = figures(name, 8, 20, fbw, c, early)
    assert found.makespan == Fraction(makespan)
    assert found.span == Fraction(span)
    assert max(found.peaks) == peak


@pytest.mark.parametrize(
    ("name", "makespan", "span"),
    [
        ("zb_v", "685194", "661196.5"),
        ("v_half", "742941.5", "742941.5"),
        ("v_min", "890536.5", "890536.5"),
    ],
)
def test_measured_times_of_the_zero_bubble_paper(
    name: str, makespan: str, span: str | None
) -> None:
    """Four devices, eight micro-batches, times in µs measured for arXiv 2401.10241."""
    early = Fraction(1, 2) if name == "zb_v" else 0
    found = figures(name, 4, 8, (29718, 29444, 19927), 527, early)
    assert found.makespan == Fraction(makespan)
    assert found.span == Fraction(span)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "span_rate", "peak"), [("v_half", "0.1847", 9), ("v_min", "0.3300", 6)]
)
def test_sixteen_devices(name: str, span_rate: str, peak: int) -> None:
    """Setting of the ZB-V experiments with 48 micro-batches; rates of sail-sg's scheduler."""
    found = figures(name, 16, 48, (28814, 28760, 19352), 1610)
    assert f"{float(found.rate):.4f}" == span_rate
    assert max(found.peaks) == peak


def uneven(rng: random.Random, p: int, m: int, model: CommunicationModel) -> PlanningProblem:
    """Stages that all differ."""
    stages = tuple(
        Stage(*(rng.randint(1, 9) for _ in range(3)), *(rng.randint(0, 5) for _ in range(3)))
        for _ in range(2 * p)
    )
    template = Template(stages, m, rng.randint(0, 9), transfers=model)
    return pipeline_problem("uneven", template, place("v", p))


@pytest.mark.parametrize("model", [CommunicationModel.DELAY, CommunicationModel.CHANNEL])
def test_any_stages_micro_batches_and_times(model: CommunicationModel) -> None:
    rng = random.Random(3)
    for p in range(1, 6):
        for m in (1, 2, 3, 5, 8):
            problem = uneven(rng, p, m, model)
            for name in NAMES:
                plan = EXPERTS[name](problem)
                assert plan is not None, (name, p, m)
                verdict = verify(problem, plan)
                assert verdict.ok, (name, p, m, verdict.violations)


def test_limits_are_kept_or_there_is_no_plan() -> None:
    for name, cap in (("zb_v", 4), ("v_half", 3), ("v_min", 2)):
        template, activation = uniform(4, 8, chunks=2)
        for limit in (cap, cap - 1):
            problem = pipeline_problem(
                "case", template, place("v", 4), memory_bytes=limit * activation
            )
            assert (EXPERTS[name](problem) is None) == (limit < cap)


def test_not_defined_elsewhere() -> None:
    template, _ = uniform(4, 8, chunks=2)
    problems = [
        pipeline_problem("case", template, place("interleaved", 4)),
        pipeline_problem("case", dataclasses.replace(template, joint_backward=True), place("v", 4)),
        pipeline_problem("case", uniform(4, 8)[0], place("line", 4)),
        pipeline_problem("case", uniform(4, 8)[0], place("dualpipe", 4)),
    ]
    for problem in problems:
        for name in NAMES:
            assert EXPERTS[name](problem) is None


def capped(name: str, p: int, m: int, cap: int, fbw: Times, c: int) -> Fraction | None:
    """Makespan of a checked plan under a limit."""
    template, activation = uniform(p, m, fbw, transfer=c, chunks=2)
    problem = pipeline_problem("case", template, place("v", p), memory_bytes=cap * activation)
    plan = EXPERTS[name](problem)
    if plan is None:
        return None
    verdict = verify(problem, plan)
    assert verdict.ok, verdict.violations
    return Fraction(verdict.components["makespan"], template.units.time_scale)


@pytest.mark.parametrize(("cap", "makespan"), [(2, "29.5"), (3, "26.5"), (4, "25.5"), (1, None)])
def test_search_over_blocks_at_unit_times(cap: int, makespan: str | None) -> None:
    """Four devices, eight micro-batches: as sail-sg's search over building blocks.

    29.5, 26.5 and 25.5 are optimal there; one activation is too little for any block.
    """
    found = capped("v_auto", 4, 8, cap, (1, 1, 1), 0)
    assert found == (None if makespan is None else Fraction(makespan))


@pytest.mark.parametrize(("fbw", "c"), [((1, 1, 1), 0), ((10, 12, 7), 1)])
def test_search_over_blocks_uses_what_memory_there_is(fbw: Times, c: int) -> None:
    makespans = []
    for cap in (1, 2, 3, 4):
        found = capped("v_auto", 4, 8, cap, fbw, c)
        named = [capped(name, 4, 8, cap, fbw, c) for name in NAMES]
        known = [makespan for makespan in named if makespan is not None]
        if known:
            assert found is not None
            assert found <= min(known)
        if found is not None:
            makespans.append(found)
    assert len(makespans) == 3
    assert makespans == sorted(makespans, reverse=True)
