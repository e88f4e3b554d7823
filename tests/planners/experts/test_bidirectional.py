"""Chimera, DualPipe and DualPipeV against closed forms and recomputed figures."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS, overlapped_dualpipe
from milp_plan.kinds.pipeline.experts.dualpipe import dualpipe_orders
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform

from .figures import Figures, Times

CHUNKS = {"dualpipe": 1, "v": 2, "line": 1}


def problem_of(
    family: str, p: int, m: int, fbw: Times = (1, 1, 1), c: int = 0, joint: bool = False
) -> tuple[PlanningProblem, int, int]:
    """Uniform problem, ticks per unit, bytes per activation of a device's share."""
    template, activation = uniform(
        p, m, fbw, transfer=c, chunks=CHUNKS[family], joint_backward=joint
    )
    problem = pipeline_problem("case", template, place(family, p))
    return problem, template.units.time_scale, activation


def figures(name: str, family: str, p: int, m: int, *rest: object, **options: object) -> Figures:
    problem, scale, activation = problem_of(family, p, m, *rest, **options)  # type: ignore[arg-type]
    shop = shop_of(problem)
    assert shop is not None
    words = WORDS[name](shop)
    assert words is not None
    return Figures(shop, words, scale, activation)


def fused(
    family: str, p: int, m: int, fbw: Times, c: int, share: Fraction | int | None
) -> tuple[Fraction, Fraction, list[Fraction]]:
    """Makespan, peak activations, and idle time of each device, of the plan with whole pairs."""
    problem, _, activation = problem_of(family, p, m, fbw, c)
    found = overlapped_dualpipe(problem, share)
    assert found is not None
    verdict = verify(*found)
    assert verdict.ok, verdict.violations
    scale = found[0].units.time_scale
    busy = dict.fromkeys(found[0].cluster.device_names, 0)
    for run in found[1].runs:
        assert run.stop_ticks is not None
        assert run.start_ticks is not None
        busy[run.devices[0]] += run.stop_ticks - run.start_ticks
    makespan = verdict.components["makespan"]
    idle = [Fraction(makespan - work, scale) for work in busy.values()]
    peak = Fraction(verdict.components["peak_memory"], activation)
    return Fraction(makespan, scale), peak, idle


@pytest.mark.parametrize("p", [2, 4, 6, 8])
def test_dualpipe_at_unit_times(p: int) -> None:
    """Bubble (p/2−1)(F&B + (B+W) − 3W) and p+1 activations (DeepSeek-V3 report, table 2)."""
    for m in (2 * p, 2 * p + 6):
        makespan, peak, _ = fused("dualpipe", p, m, (1, 1, 1), 0, 1)
        assert makespan - 3 * m == (p // 2 - 1) * (3 + 2 - 3)
        assert peak == p + 1
        opened = figures("dualpipe", "dualpipe", p, m)
        assert opened.bubble == p // 2 - 1
        assert max(opened.peaks) == p + 1


@pytest.mark.parametrize(
    ("fbw", "printed", "whole", "opened", "least", "most"),
    [
        ((1, 1, 1), "4.65", 6, 3, "3.75", "4.65"),
        ((3, 5, 2), "28.5", 30, 21, "22.5", "25.5"),
        ((10, 12, 7), "67.95", 75, 45, "53.25", "61.95"),
    ],
)
def test_dualpipe_on_eight_devices(
    fbw: Times, printed: str, whole: int, opened: int, least: str, most: str
) -> None:
    """Bubbles recomputed from the authors' order by a simulation of its own, for any m.

    The printed formula is an upper bound; with pairs of 0.85(F+B+W) devices have unequal work,
    so ``least`` and ``most`` are over devices.
    """
    share = Fraction(85, 100)
    _, backward, weight = fbw
    formula = 3 * (share * sum(fbw) + backward + weight - 3 * weight)
    assert formula == Fraction(printed)
    assert fused("dualpipe", 8, 16, fbw, 0, 1)[0] - 16 * sum(fbw) == whole
    assert fused("dualpipe", 8, 16, fbw, 0, None)[0] - 16 * sum(fbw) == opened
    _, _, idle = fused("dualpipe", 8, 16, fbw, 0, share)
    assert (min(idle), max(idle)) == (Fraction(least), Fraction(most))
    assert max(idle) <= formula


@pytest.mark.parametrize(
    ("family", "fbw", "c", "whole", "overlapped", "opened"),
    [
        ("dualpipe", (1, 1, 1), 0, "66", "59.7", "63"),
        ("dualpipe", (10, 12, 7), 1, "681", "620.1", "642"),
        ("v", (1, 1, 1), 0, "67", "60.25", "63.5"),
        ("v", (10, 12, 7), 1, "729.5", "664.25", "676.5"),
    ],
)
def test_eight_devices_twenty_micro_batches(
    family: str, fbw: Times, c: int, whole: str, overlapped: str, opened: str
) -> None:
    """Makespans recomputed from the order of the repository deepseek-ai/DualPipe.

    Pairs whole, pairs of 0.85 of their length, and pairs opened with backwards still whole;
    operator by operator the order is never slower than the last.
    """
    for share, makespan in ((1, whole), (Fraction(85, 100), overlapped), (None, opened)):
        found = fused(family, 8, 20, fbw, c, share)
        assert found[0] == Fraction(makespan)
        assert found[1] == (9 if family == "dualpipe" else Fraction(17, 2))
    name = "dualpipe" if family == "dualpipe" else "dualpipev"
    assert figures(name, family, 8, 20, fbw, c).makespan <= Fraction(opened)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 6])
def test_dualpipev_at_unit_times(p: int) -> None:
    """DualPipe's formula with 2p stages of half a share; 2p+1 stage activations (its README)."""
    m = 2 * p + 1
    makespan, peak, _ = fused("v", p, m, (2, 2, 2), 0, 1)
    assert makespan - 6 * m == (p - 1) * (3 + 2 - 3)
    assert peak == p + Fraction(1, 2)
    assert figures("dualpipev", "v", p, m, (2, 2, 2)).bubble == p - 1


def test_pairs_are_a_forward_and_a_backward_of_another_micro_batch() -> None:
    for family, p in (("dualpipe", 4), ("v", 3)):
        problem, *_ = problem_of(family, p, 8)
        shop = shop_of(problem)
        assert shop is not None
        pairs = [
            group for row in dualpipe_orders(shop).values() for group in row if len(group) == 3
        ]
        assert pairs
        for forward, backward, weight in pairs:
            operators = [problem.graph.operator(name) for name in (forward, backward, weight)]
            assert [o.name[0] for o in operators] == ["F", "B", "W"]
            assert operators[1].micro_batch == operators[2].micro_batch
            assert operators[0].micro_batch != operators[1].micro_batch
            assert len({problem.placements(o.name)[0] for o in operators}) == 1
        assert len({name for pair in pairs for name in pair}) == 3 * len(pairs)


@pytest.mark.parametrize(
    ("family", "p", "m", "joint"),
    [
        ("dualpipe", 3, 8, False),
        ("dualpipe", 4, 6, False),
        ("dualpipe", 4, 9, False),
        ("dualpipe", 4, 8, True),
        ("v", 4, 7, False),
        ("v", 4, 8, True),
        ("line", 4, 8, False),
    ],
)
def test_dualpipe_is_not_defined_elsewhere(family: str, p: int, m: int, joint: bool) -> None:
    problem, *_ = problem_of(family, p, m, joint=joint)
    assert EXPERTS["dualpipe"](problem) is None
    assert EXPERTS["dualpipev"](problem) is None
    assert overlapped_dualpipe(problem) is None
    shop = shop_of(problem)
    assert shop is not None
    assert dualpipe_orders(shop) is None


def test_overlapped_dualpipe_needs_its_memory() -> None:
    template, activation = uniform(4, 8)
    for cap, fits in ((5, True), (4, False)):
        problem = pipeline_problem(
            "case", template, place("dualpipe", 4), memory_bytes=cap * activation
        )
        assert (overlapped_dualpipe(problem) is not None) == fits
        assert (EXPERTS["dualpipe"](problem) is not None) == fits
    with pytest.raises(ValueError, match="share is 0"):
        overlapped_dualpipe(problem, 0)


@pytest.mark.parametrize("joint", [True, False])
def test_chimera_with_equal_passes(joint: bool) -> None:
    """(p/2−1)(F+B+W) for F = B+W, any number of units (arXiv 2107.06925, section 3)."""
    for p, units in product((2, 4, 6, 8), (1, 2, 3)):
        fbw = (3, 3, 0) if joint else (3, 2, 1)
        found = figures("chimera", "dualpipe", p, units * p, fbw, joint=joint)
        if joint:
            assert found.bubble == (p // 2 - 1) * 6
        else:  # the input gradient need not wait for W
            assert found.bubble <= (p // 2 - 1) * 6
        assert found.peaks == [p // 2 + 1 + min(d, p - 1 - d) for d in range(p)]


@pytest.mark.parametrize(("p", "makespan"), [(4, 16), (6, 26), (8, 36)])
def test_chimera_with_a_backward_twice_as_long(p: int, makespan: int) -> None:
    """One unit lasts 3p + 2(p−2) forwards; 16 and 36 are optimal there (constraint solver)."""
    found = figures("chimera", "dualpipe", p, p, (1, 2, 0), joint=True)
    assert found.makespan == makespan == 3 * p + 2 * (p - 2)


@pytest.mark.parametrize("m", [2, 3, 5, 6, 11])
def test_chimera_with_incomplete_units(m: int) -> None:
    for joint in (True, False):
        problem, *_ = problem_of("dualpipe", 4, m, (3, 2, 2), 1, joint=joint)
        plan = EXPERTS["chimera"](problem)
        assert plan is not None
        assert verify(problem, plan).ok


def test_chimera_is_not_defined_elsewhere() -> None:
    for family, p in (("dualpipe", 3), ("line", 4), ("v", 4)):
        problem, *_ = problem_of(family, p, 6)
        assert EXPERTS["chimera"](problem) is None
