"""What a solve says while it runs."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from milp_plan.cli.output import note
from milp_plan.cli.progress import display
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
