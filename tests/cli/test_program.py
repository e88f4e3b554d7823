"""How the command ends as a process: at once, and with all that belongs to an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from milp_plan.cli import program
from milp_plan.cli.exits import Exit

from .cases import REPOSITORY, call

PATIENCE_S = 120
"""Only against a test that hangs."""

SIGNS = """
import atexit, sys, threading, time
class Kept:
    def __del__(self):
        print("taken down")
kept = [Kept()]
kept.append(kept)
atexit.register(print, "registered")
"""
"""Says whether registered functions run, and whether the interpreter takes down what it holds."""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, its output in a pipe."""
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", SIGNS + code, *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
    )  # fmt: skip


def test_the_signs_show_what_an_interpreter_does() -> None:
    assert python("print('done')").stdout.splitlines() == ["done", "registered", "taken down"]


def test_output_is_whole_and_nothing_is_taken_down() -> None:
    done = python("from milp_plan.cli.program import run; run()", "list", "--json")
    *reported, last = done.stdout.splitlines()
    assert last == "registered"
    assert json.loads("\n".join(reported)) == json.loads(call("list", "--json").stdout)
    assert (done.returncode, done.stderr) == (Exit.DONE, "")


def test_what_is_left_in_buffers_is_written() -> None:
    code = "from milp_plan.cli.program import leave; sys.stdout.write('x' * 1_000_000); leave(3)"
    done = python(code)
    assert done.stdout == "x" * 1_000_000 + "registered\n"
    assert done.returncode == 3


@pytest.mark.parametrize("code", [None, 7, 143, 256, -1, "a message"])
def test_exit_codes_are_those_of_the_interpreter(code: object) -> None:
    ours = python(f"from milp_plan.cli.program import leave; leave({code!r}); sys.exit({code!r})")
    theirs = python(f"sys.exit({code!r})")
    assert ours.returncode == theirs.returncode
    assert ours.stderr == theirs.stderr
    assert ("taken down" in ours.stdout) == isinstance(code, str)


@pytest.mark.parametrize("arguments", [["plann"], ["info", "none.json"]])
def test_exit_codes_are_those_of_the_command(arguments: list[str]) -> None:
    ours = python("from milp_plan.cli.program import run; run()", *arguments)
    assert ours.returncode == call(*arguments).exit_code
    assert "taken down" not in ours.stdout


def test_an_interruption_while_the_command_is_loaded_is_one_line() -> None:
    code = (
        "import builtins\n"
        "from milp_plan.cli import program\n"
        "usual = builtins.__import__\n"
        "def load(name, *more):\n"
        "    if name == 'main': raise KeyboardInterrupt\n"
        "    return usual(name, *more)\n"
        "builtins.__import__ = load\n"
        "program.run()"
    )
    done = python(code, "list")
    assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, "interrupted\n")
    assert Exit.INTERRUPTED == program.INTERRUPTED


def test_threads_are_waited_for() -> None:
    code = (
        "from milp_plan.cli.program import leave\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('worked'))).start()\n"
        "leave(5); sys.exit(5)"
    )
    done = python(code)
    assert done.stdout.splitlines()[:2] == ["worked", "registered"]
    assert done.returncode == 5


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe raises another error on Windows")
@pytest.mark.parametrize("end", ["leave(0)", "sys.exit(0)"])
def test_a_reader_that_left(end: str) -> None:
    code = f"import sys; from milp_plan.cli.program import leave; print('unread'); {end}"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True,
            check=False, timeout=PATIENCE_S, cwd=REPOSITORY,
            env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.returncode == 120
    assert "BrokenPipeError" in done.stderr
