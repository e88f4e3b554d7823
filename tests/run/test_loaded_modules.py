"""A small solve loads what it uses, and little else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULES, LINES = 170, 30_000
"""Most modules of the package, and lines of them, that planning 17 operators may load."""

INSTANCE = Path(__file__).parents[2] / "instances" / "gpt-tiny-training-2xA100.json"

CODE = f"""
import sys
import milp_plan as mp
outcome = mp.solve(mp.read({str(INSTANCE)!r}), time_limit="120s")
print(outcome.proved)
names = [name for name in sys.modules if name.split(".")[0] == "milp_plan"]
print(*(sys.modules[name].__file__ for name in names), sep="\\n")
"""


def test_a_small_solve_loads_few_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},  # the same whatever is compiled already
    )
    proved, *files = done.stdout.splitlines()
    assert proved == "True"
    assert len(files) <= MODULES, files
    assert sum(len(Path(file).read_text().splitlines()) for file in files) <= LINES
    named = {name for file in files for name in Path(file).parts}
    assert "schedule" in named
    assert not {"formulations", "window_search"} & named
