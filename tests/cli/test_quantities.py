"""Ticks, bytes, gaps and seconds as people read them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import Objective, PlanningProblem, Units
from milp_plan.core.amounts import seconds_text, share_text, size_text, time_text, value_text
from tests.report.plans import two_devices

from .cases import call, instance_file


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (None, "—"),
        (0, "0 ns"),
        (999, "999 ns"),
        (14_000, "14 µs"),
        (1_234_567, "1.23457 ms"),
        (5 * 10**9, "5 s"),
        (10**30, "1,000,000,000,000,000,000,000 s"),
    ],
)
def test_nanoseconds(ticks: int | None, text: str) -> None:
    assert time_text(Units(), ticks) == text


def test_other_units_keep_the_figures_of_the_source() -> None:
    assert time_text(Units("unspecified", "bytes", 100), 5_786) == "57.86 (unit unspecified)"
    assert time_text(Units("us", "bytes", 1), 250_000) == "250,000 us"


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(None, "—"), (1023, "1023 B"), (1536, "1.5 KiB"), (80 * 10**9, "74.5058 GiB")],
)
def test_bytes(num_bytes: int | None, text: str) -> None:
    assert size_text(Units(), num_bytes) == text


def test_bytes_without_unit() -> None:
    assert size_text(Units("ns", "unspecified"), 4096) == "4096 (unit unspecified)"


def test_value_has_the_unit_of_the_objective() -> None:
    problem = two_devices()
    assert value_text(problem, 2048) == "2.048 µs"
    assert value_text(replace(problem, objective=Objective.PEAK_MEMORY), 2048) == "2 KiB"


def test_shares_and_seconds() -> None:
    assert share_text(None) == "—"
    assert share_text(0.03214) == "3.21%"
    assert seconds_text(None) == "—"
    assert seconds_text(0.256) == "0.26 s"
    assert seconds_text(61.23) == "61.2 s"


def _long(ticks: int) -> PlanningProblem:
    """Two devices, in milliseconds of so many ticks."""
    problem = two_devices(units=Units("ms", "bytes", 10**20))
    graph = problem.graph
    operators = tuple(
        replace(
            one, options=(replace(one.options[0], duration_ticks={"gpu": (1 + place) * ticks}),)
        )
        for place, one in enumerate(graph.operators)
    )
    return replace(problem, graph=replace(graph, operators=operators))


@pytest.mark.untraced
def test_no_answer_for_people_has_raw_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """189.142 ms were 18,914,219,086,454,997,000,000,000; only ``check`` says the exact value."""
    monkeypatch.chdir(tmp_path)
    instance, tight = instance_file(tmp_path, _long(189_142 * 10**17 // 6 + 1)), "--memory-scale"
    limit = ("--time-limit", "100")
    asked: dict[tuple[str | Path, ...], tuple[Exit, str]] = {
        ("solve", instance, "--plan-output", "plan.json", *limit): (Exit.DONE, "189.142 ms"),
        ("table", "--record-folder", "results/runs"): (Exit.DONE, "189.142 ms"),
        ("explain", instance, "plan.json"): (Exit.DONE, "189.142 ms"),
        ("bound", instance): (Exit.DONE, "at least 189.142 ms"),
        ("solve", instance, tight, "1/3", *limit): (Exit.INFEASIBLE, "needs at least 3 MiB"),
        ("bound", instance, tight, "1/3"): (Exit.INFEASIBLE, "needs at least 3 MiB"),
        ("explain", instance, tight, "1/3", *limit): (Exit.INFEASIBLE, "needs at least 3 MiB"),
    }
    for words, (code, stated) in asked.items():
        result = call(*words)
        assert result.exit_code == code, words
        assert stated in result.stdout, words
        # A record's name ends in twelve hexadecimal digits, eight of them decimal once in a while.
        answer = re.sub(r"-[0-9a-f]{12}\.json", ".json", result.stdout + result.stderr)
        raw = re.findall(r"\d{8}|\d,\d{3},\d{3}", answer)
        assert not raw, words
