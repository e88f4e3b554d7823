"""Results as text and JSON."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from milp_plan.cli import output
from milp_plan.core import Finding, FormulationError, InputError


def test_json_is_exact_and_strict(capsys: pytest.CaptureFixture[str]) -> None:
    content = {"big": 10**30, "nan": math.nan, "inf": [math.inf], "path": Path("a"), "gap": 0.5}
    output.say_json(content)
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert json.loads(printed) == {
        "big": 10**30,
        "nan": None,
        "inf": [None],
        "path": "a",
        "gap": 0.5,
    }


def test_every_finding_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    output.complain(
        InputError(
            [Finding("a", "1", "2", "correct it", "f"), Finding("b", "1", "2", "correct it")]
        )
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "error: f: a: found 1, expected 2; correct it",
        "error: b: found 1, expected 2; correct it",
    ]


def test_other_errors_name_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    output.complain(FormulationError("no"), Path("x.json"))
    assert capsys.readouterr().err == "error: x.json: no\n"


def test_table_aligns_and_prints_brackets_as_they_are() -> None:
    lines = output.table_text(
        ["name", "ticks"], [["[bold]a[/bold]", "5"], ["b", "1,000"]], title="t", numeric=[1]
    ).splitlines()
    assert lines[0] == "t"
    assert lines[1].split() == ["name", "ticks"]
    assert lines[3].split() == ["[bold]a[/bold]", "5"]
    assert lines[3].endswith("    5")
    assert lines[4].endswith("1,000")


def test_table_without_a_head() -> None:
    assert output.table_text(["", ""], [["a", "b"]]).split() == ["a", "b"]


def test_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    text = output.table_text(["a"], [["word " * 30]])
    assert max(len(line) for line in text.splitlines()) <= 40
    assert text.count("word") == 30


def test_controls_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("operator \x1b[31mred\x07, 算子")
    output.note("\x9b2J")
    reported = capsys.readouterr()
    assert reported.out == "operator \\x1b[31mred\\x07, 算子\n"
    assert reported.err == "\\x9b2J\n"


def test_what_a_stream_has_no_code_for_is_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1")
    monkeypatch.setattr("sys.stdout", stream)
    output.say("20 µs — 算子")
    output.say_json({"name": "算子"})
    stream.flush()
    first, second = raw.getvalue().decode("latin-1").splitlines()
    assert first == "20 µs \\u2014 \\u7b97\\u5b50"
    assert json.loads(second) == {"name": "算子"}
