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

from .cases import REPOSITORY, call, instance_file
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


TRAINING = json.loads((REPOSITORY / "examples/training/llama3-8b-8xB200.json").read_text())
NODES = [{"id": place, "name": "ab"[place], "cost_cpu": 1, "cost_ram": 1} for place in (0, 1)]
CIRCLE = [{"source": 0, "target": 1}, {"source": 1, "target": 0}]
JOBS = """\
format = "milp-plan-jobs"
version = 1
name = "one"
ticks_per_unit = 1
pools = [{ name = "g", devices = 1 }]
objective = "makespan"
"""
UNIT = '{ technique = "t", pool = "g", devices = 1, time = -5, bytes = 0 }'

ONCE_VAGUE: dict[str, tuple[str, str | dict[str, Any], list[str]]] = {
    "a framework that is unknown": (
        "job.json",
        TRAINING | {"framework": "megatronn"},
        [
            "framework: found 'megatronn', expected one of megatron, torchtitan, nanotron, "
            "deepspeed, fsdp2; did you mean 'megatron'?"
        ],
    ),
    "a cluster of an unknown class": (
        "job.json",
        TRAINING | {"cluster": "8xZ9"},
        ["cluster: found device class 'Z9', expected one of A100, "],
    ),
    "a node without its costs": (
        "graph.json",
        {"directed": True, "nodes": [{"id": 0, "name": "a", "cost_ram": 1}], "edges": []},
        ["nodes[0].cost_cpu: found nothing, expected this field; add the field"],
    ),
    "edges in a circle": (
        "graph.json",
        {"directed": True, "nodes": NODES, "edges": CIRCLE},
        [
            "edges: found 2 nodes in circles or behind them, the first 0, expected a graph "
            "without circles; remove one of them"
        ],
    ),
    "a list of nothing": (
        "jobs.toml",
        f"{JOBS}jobs = []",
        ["jobs: found [], expected a list of at least 1; correct it"],
    ),
    "a number that may be a decimal": (
        "jobs.toml",
        f'{JOBS}jobs = [{{ name = "j", units = [{{ options = [{UNIT}] }}] }}]',
        ["jobs[0].units[0].options[0].time: found -5, expected a number of at least 0; correct it"],
    ),
}
"""Files, and what is said of them: of no field, of another one, or twice."""


@pytest.mark.parametrize("fault", ONCE_VAGUE)
def test_messages_name_the_field_once(fault: str, tmp_path: Path) -> None:
    name, content, expected = ONCE_VAGUE[fault]
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    result = call("solve", file, "--time-limit", "5")
    assert result.exit_code == Exit.BAD_INPUT
    lines = result.stderr.splitlines()
    assert len(lines) == len(expected), result.stderr
    for line, text in zip(lines, expected, strict=True):
        assert line.startswith(f"error: {file}: {text}"), line
