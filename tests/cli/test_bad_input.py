"""Every kind of bad input: one clear error, the exit code for it, and good files still solved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milp_plan import run
from milp_plan.cli.exits import Exit
from tests.report.plans import two_devices

from .cases import call, instance_file
from .outcomes import outcome, runner


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    """Return a damage that changes the content of an instance file."""

    def damage(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return damage


def durations(content: dict[str, Any]) -> dict[str, int]:
    """Durations of the first operator's only option."""
    found: dict[str, int] = content["operators"][0]["options"][0]["duration_ns"]
    return found


def cycle(content: dict[str, Any]) -> None:
    content["values"].append(
        {"name": "back", "producer": "embed.dx@0", "consumers": ["head"], "bytes": {"full": 1}}
    )


DAMAGES: dict[str, tuple[Callable[[str], str], str]] = {
    "truncated": (lambda text: text[: len(text) // 2], "JSON"),
    "empty": (lambda _: "", "an empty file"),
    "cycle": (edited(cycle), "cycle"),
    "negative duration": (edited(lambda c: durations(c).update(gpu=-1)), "-1"),
    "missing duration": (edited(lambda c: durations(c).clear()), "duration"),
    "unknown device class": (
        edited(lambda c: c["cluster"]["devices"][0].update(device_class="tpu")),
        "'tpu'",
    ),
    "duplicate name": (edited(lambda c: c["operators"].append(c["operators"][0])), "'embed'"),
    "unknown field": (edited(lambda c: c.update(colour="red")), "colour"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_instance(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "solve", runner(outcome))
    change, word = DAMAGES[damage]
    good, bad = (
        instance_file(tmp_path, replace(two_devices(), name="good")),
        instance_file(tmp_path),
    )
    bad.write_text(change(bad.read_text()))
    result = call("solve", bad, good, "--quiet")
    assert result.exit_code == Exit.BAD_INPUT
    assert result.stdout.startswith("good: makespan 14 µs\n")
    lines = result.stderr.splitlines()
    assert lines
    for line in lines:
        assert line.startswith(f"error: {bad}: ")
        assert ": found " in line
        assert ", expected " in line
        assert "; " in line
    assert word in result.stderr
