"""A small solve loads what it uses, and little else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODULES, LINES = 170, 30_000
"""Most modules of the package, and lines of them, that planning 17 operators may load."""

CODE = """
import sys
from pathlib import Path
import milp_plan as mp
outcome = mp.solve(mp.read("{file}"), seed=1, node_limit=1000)
files = {{name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "milp_plan"}}
print(outcome.proved, len(files), sum(len(Path(file).read_text().splitlines()) for file in files.values()))
print(*sorted(files))
"""


def test_a_small_solve_loads_few_modules(repository: Path = Path(__file__).parents[2]) -> None:
    file = repository / "instances" / "gpt-tiny-training-2xA100.json"
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(file=file)], capture_output=True, text=True, check=True
    )
    facts, names = done.stdout.splitlines()
    proved, modules, lines = facts.split()
    assert proved == "True"
    assert int(modules) <= MODULES, names
    assert int(lines) <= LINES, names
    assert "milp_plan.kinds.training.kind" in names.split()
    others = [name for name in names.split() if name.startswith("milp_plan.kinds.training.")]
    assert others == ["milp_plan.kinds.training.kind"]
