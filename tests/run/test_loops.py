"""Loops compiled in advance: all of them, under the types that runs use."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import milp_plan
from milp_plan.run.loop_parts import LoopPart
from milp_plan.run.loops import compile_loops, loop_parts

SOURCES = Path(milp_plan.__file__).parent


def test_parts_run_in_order(monkeypatch: pytest.MonkeyPatch):
    """What runs them all is ``milp-plan compile``, before the tests, and the slow test."""
    seen: list[str] = []
    monkeypatch.setattr(LoopPart, "compile", lambda part: seen.append(f"ran {part.name}"))
    compile_loops(seen.append)
    assert seen == [step for part in loop_parts() for step in (part.name, f"ran {part.name}")]


def compiled_functions() -> set[tuple[str, str]]:
    """Module and name of each function that is compiled."""
    return {
        (path.stem, name)
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r"^@compiled\ndef (\w+)", path.read_text(), re.MULTILINE)
    }


@pytest.mark.slow
def test_every_loop_is_compiled(tmp_path: Path):
    code = "from milp_plan.run.loops import compile_loops; compile_loops(workers=2)"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    kept = (re.match(r"(\w+)\.(\w+)-\d+", path.name) for path in tmp_path.rglob("*.nbi"))
    found = {(match[1], match[2]) for match in kept if match}
    assert len(found) > 60
    assert compiled_functions() == found & compiled_functions()
