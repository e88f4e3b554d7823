"""A small solve loads what it uses, and little else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


LATE = """
import sys
import milp_plan as mp
from milp_plan.models.registry import get
from milp_plan.run.kinds import kind_of
problem = mp.read(sys.argv[1])
assert mp.solve(problem, time_limit="120s").plan is not None
assert "pyomo" not in sys.modules
(strategy,) = kind_of(problem).strategies()
assert strategy.formulation_always_applies(problem)
formulation = get(strategy.formulation_for(problem)).formulation
assert formulation.unsupported(problem, formulation.Options()) is None
"""


@pytest.mark.parametrize(
    "file", ["resharding/two-to-three-hosts.json", "local-updates/eight-stages.json"]
)
def test_a_model_that_is_not_solved_is_not_loaded(file: str) -> None:
    """Half of the time to a first plan was spent on loading a model that no step asked."""
    path = INSTANCE.parents[1] / "examples" / file
    subprocess.run([sys.executable, "-c", LATE, path], check=True)
