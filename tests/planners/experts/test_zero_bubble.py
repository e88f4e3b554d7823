"""The zero-bubble schedules against published rates and against the authors' scheduler."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem

from .figures import Figures, Times, uniform_shop

SETTINGS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("zero_bubble_rates.toml").read_text(encoding="utf-8")
)["setting"]


def label(setting: dict[str, Any]) -> str:
    return f"{setting['model']}-{setting['micro_batches']}"


def slow_if_large(setting: dict[str, Any]) -> Any:
    large = setting["devices"] * setting["micro_batches"] > 2048
    return pytest.param(setting, id=label(setting), marks=[pytest.mark.slow] if large else [])


def test_there_are_sixty_published_rates() -> None:
    names = {"1f1b", "zb_h1", "zb_h2", "zb_1p", "zb_2p"}
    assert len({label(setting) for setting in SETTINGS}) == 12
    assert all(set(setting["rates"]) == names for setting in SETTINGS)


@pytest.mark.parametrize("setting", [slow_if_large(s) for s in SETTINGS])
def test_published_rates(setting: dict[str, Any]) -> None:
    """To 1e-4: they are printed with four digits."""
    p, m = setting["devices"], setting["micro_batches"]
    total = 34 * setting["hidden"] + 5 * setting["heads"] * 1024
    early = 1 - Fraction(32 * setting["hidden"], total)
    most = {"1f1b": p, "zb_h1": p, "zb_h2": 2 * p - 1, "zb_1p": p, "zb_2p": 2 * p}
    for joint, names in ((True, ["1f1b"]), (False, ["zb_h1", "zb_h2", "zb_1p", "zb_2p"])):
        shop, scale, activation = uniform_shop(
            p, m, tuple(setting["times"]), setting["transfer"], joint=joint, early=early
        )
        for name in names:
            words = WORDS[name](shop)
            assert words is not None
            found = Figures(shop, words, scale, activation)
            assert abs(float(found.rate) - setting["rates"][name]) <= 1e-4, name
            assert max(found.peaks) <= most[name]


MEASURED: Times = (29718, 29444, 19927)


@pytest.mark.parametrize(
    ("fbw", "transfer", "early", "cap", "makespan", "span"),
    [
        ((1, 1, 1), 0, 0, 10, 55, 53),
        ((1, 1, 1), 0, 0, 16, 55, 48),
        ((10, 12, 7), 1, 0, 8, 597, 597),
        ((10, 12, 7), 1, 0, 10, 570, 569),
        ((10, 12, 7), 1, 0, 12, 555, 555),
        ((10, 12, 7), 1, 0, 16, 541, 527),
        ((10, 12, 7), 1, Fraction(1, 2), 10, 569, 555),
        ((10, 12, 7), 1, Fraction(1, 2), 12, 547, 533),
        (MEASURED, 527, 0, 10, 1507593, 1507593),
        (MEASURED, 527, 0, 12, 1477139, 1467739),
        (MEASURED, 527, Fraction(1, 2), 10, 1485184, 1419474),
        (MEASURED, 527, Fraction(1, 2), 16, 1477139, 1388031),
    ],
)
def test_the_greedy_equals_the_authors_scheduler(
    fbw: Times, transfer: int, early: Fraction | int, cap: int, makespan: int, span: int
) -> None:
    """8 devices, 16 micro-batches: values of the scheduler published with arXiv 2401.10241."""
    shop, scale, activation = uniform_shop(8, 16, fbw, transfer, early=early, cap=cap)
    words = WORDS["zb_auto"](shop)
    assert words is not None
    found = Figures(shop, words, scale, activation)
    assert (found.makespan, found.span) == (makespan, span)
    assert max(found.peaks) <= cap
    plan = EXPERTS["zb_auto"](shop.problem)
    assert plan is not None
    assert verify(shop.problem, plan).value == span


def test_without_bytes_activations_are_counted_and_limits_do_not_bind() -> None:
    held, scale, _ = uniform_shop(4, 12, (10, 12, 7))
    template = Template((Stage(10, 12, 7),) * 4, 12)
    bare = shop_of(
        pipeline_problem(
            "bare", template, place("line", 4), memory_bytes=1, objective=Objective.SPAN
        )
    )
    assert bare is not None
    for name in ("zb_1p", "zb_2p", "zb_auto"):
        assert WORDS[name](bare) == WORDS[name](held)
    once, free = (WORDS[name](held) for name in ("zb_1p", "zb_auto"))
    assert once is not None
    assert free is not None
    assert Figures(held, free, scale, 1).span < Figures(held, once, scale, 1).span
