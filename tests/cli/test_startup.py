"""What is not needed is not loaded: by the package alone, by a small problem."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import startup

from .cases import REPOSITORY

HEAVY = ("pyomo", "highspy", "numba", "scipy", "pandas", "matplotlib", "rich")

LOADED = f"""
import json, sys
print(json.dumps([name for name in (*{HEAVY}, "numpy", "scipy.optimize") if name in sys.modules]))
"""


def loaded(code: str, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code + LOADED, *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded("import milp_plan") == []


def test_a_small_problem_needs_neither_solver_nor_compiled_loops(tmp_path: Path) -> None:
    code = """
import sys
from milp_plan.cli.main import main
main(sys.argv[1:], standalone_mode=False)
"""
    words = ("solve", startup.INSTANCE, "--quiet", "--record-folder", str(tmp_path))
    assert loaded(code, *words) == ["rich", "numpy"]
    record = next(path for path in tmp_path.glob("*.json") if ".plan" not in path.name)
    assert json.loads(record.read_text())["proved"]


def test_the_table_has_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "processor_seconds", lambda words, _: float(len(words)))
    rows = [line for line in startup.table(3).splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[1] for row in rows] == ["1.00", "1.00", "1.50", "2.50"]
