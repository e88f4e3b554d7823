"""What a solve says while it runs."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import milp_plan
from milp_plan.cli.output import display, note
from milp_plan.face import progress
from tests.report.plans import two_devices


def step(elapsed_s: float, **changes: Any) -> Any:
    """One report, as ``milp_plan.run.Progress`` has it."""
    fields: dict[str, Any] = {
        "phase": "model",
        "incumbent": 14_000,
        "bound": None,
        "gap": None,
        "note": "",
    }
    return SimpleNamespace(**{**fields, **changes}, elapsed_s=elapsed_s)


def test_line_has_incumbent_bound_gap_and_time() -> None:
    text = progress.line(two_devices(), step(1.0, bound=9_000, gap=0.357, note="3 nodes"), 2.5)
    assert text == ("two-devices: model, incumbent 14 µs, bound 9 µs, gap 35.70%, 2.5 s, 3 nodes")


def test_log_says_what_is_new_and_breaks_long_silence(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.Log(two_devices(), note) as show:
        show(step(1.0))
        show(step(2.0, note="5 nodes"))
        show(step(3.0, bound=9_000))
        show(step(3.0 + progress.SILENCE_S, bound=9_000))
    captured = capsys.readouterr()
    assert captured.out == ""
    ends = [line.rsplit(", ", 1)[1] for line in captured.err.splitlines()]
    assert ends == ["1.0 s", "3.0 s", "13.0 s"]


def test_live_line_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    live = progress.Live(two_devices(), console)
    with live as show:
        show(step(1.0, note="5 nodes"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "two-devices: model, incumbent 14 µs" in shown
    assert "5 nodes" in shown


def test_live_line_before_the_first_report() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with progress.Live(two_devices(), console):
        pass
    assert "two-devices: starting" in console.file.getvalue()  # type: ignore[attr-defined]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with display(two_devices(), quiet=True) as show:
        show(step(1.0))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("terminal", "kind"), [("1", progress.Live), ("", progress.Log)])
def test_the_terminal_decides(terminal: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", terminal)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    assert isinstance(display(two_devices(), quiet=False), kind)


class Cell:
    """What a notebook shows under a cell, as IPython's display hands it out."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        self.update(bundle, raw=True)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle["text/plain"])


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A notebook's kernel."""
    cell = Cell()
    shell = SimpleNamespace(kernel=object())
    ipython, inner = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    inner.display = cell.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    return cell


def test_a_notebook_has_one_line_that_goes_away(cell: Cell) -> None:
    with progress.chosen(two_devices(), "auto", note) as show:
        assert isinstance(show, progress.Notebook)
        show(step(1.0))
        show(step(1.1, bound=9_000))
    assert cell.shown[0] == "two-devices: starting"
    assert "incumbent 14 µs" in cell.shown[1]
    assert cell.shown[-1] == ""
    assert len(cell.shown) == 3  # two reports within a moment are one


def test_solve_shows_progress_where_somebody_looks_on(
    cell: Cell, capsys: pytest.CaptureFixture[str]
) -> None:
    milp_plan.solve(two_devices(), time_limit=20)
    assert len(cell.shown) >= 3
    milp_plan.solve(two_devices(), time_limit=20, display=False)
    assert cell.shown[-1] == ""
    assert capsys.readouterr() == ("", "")


def test_a_script_is_quiet_unless_it_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    milp_plan.solve(two_devices(), time_limit=20)
    assert capsys.readouterr() == ("", "")
    milp_plan.solve(two_devices(), time_limit=20, display=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("two-devices: ")
