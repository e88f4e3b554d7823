"""The command as a whole: its verbs, its errors, how fast it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from milp_plan import __version__
from milp_plan.cli import info
from milp_plan.cli.exits import SERIOUSNESS, Exit, code_of, most_serious
from milp_plan.core import (
    BackendFailureError,
    BackendUnavailableError,
    FormulationError,
    InputError,
    MilpPlanError,
    MissingFacetError,
    UnsupportedProblemError,
)

from .cases import REPOSITORY, call, instance_file

VERBS = (
    "bound",
    "check",
    "compile",
    "convert",
    "diff",
    "explain",
    "export",
    "generate",
    "info",
    "list",
    "new",
    "plot",
    "show-versions",
    "solve",
    "sweep",
    "table",
)


def test_help_names_every_verb_and_every_exit_code() -> None:
    result = call("--help")
    assert result.exit_code == Exit.DONE
    for verb in VERBS:
        assert f"\n  {verb} " in result.stdout
    for code in (Exit.DONE, *(code for code in Exit if 0 < code < 128)):
        assert f"{code.value} " in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    result = call(verb, "--help")
    assert result.exit_code == Exit.DONE
    assert "Usage:" in result.stdout


def test_start_imports_nothing_heavy() -> None:
    heavy = ("pyomo", "highspy", "numpy", "pandas", "matplotlib", "scipy", "networkx", "rich")
    code = (
        "import sys, milp_plan.cli.main; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert found.stdout.strip() == "[]"


def test_version() -> None:
    assert __version__ in call("--version").stdout


def test_unknown_verb_is_usage() -> None:
    result = call("plann")
    assert result.exit_code == Exit.USAGE
    assert "plann" in result.stderr


def test_missing_file_is_usage() -> None:
    assert call("info").exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError([]), Exit.BAD_INPUT),
        (UnsupportedProblemError("no"), Exit.BAD_INPUT),
        (FormulationError("no"), Exit.BAD_INPUT),
        (MissingFacetError("no"), Exit.BAD_INPUT),
        (BackendUnavailableError("no"), Exit.SOLVER_FAILURE),
        (BackendFailureError("no"), Exit.SOLVER_FAILURE),
    ],
)
def test_code_of_errors(error: MilpPlanError, code: Exit) -> None:
    assert code_of(error) == code


def test_most_serious_code_counts() -> None:
    assert most_serious([]) == Exit.DONE
    assert most_serious(reversed(SERIOUSNESS)) == Exit.NOT_VALID
    assert most_serious([Exit.NO_PLAN, Exit.BAD_INPUT, Exit.DONE]) == Exit.BAD_INPUT
    assert most_serious([Exit.INFEASIBLE, Exit.NO_PLAN]) == Exit.NO_PLAN


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (FormulationError("it is broken"), Exit.BAD_INPUT, "it is broken"),
        (PermissionError(13, "Permission denied", "x.json"), Exit.USAGE, "x.json"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted"),
    ],
)
def test_errors_become_a_message_and_a_code(
    error: BaseException,
    code: Exit,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(info, "_work", fail)
    result = call("info", instance_file(tmp_path))
    assert result.exit_code == code
    assert words in result.stderr


def test_a_reader_that_leaves_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(info, "_work", fail)
    result = call("info", instance_file(tmp_path))
    assert "error" not in result.stderr
