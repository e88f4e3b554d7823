"""Plan and record are kept where standard output or error takes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .cases import INSTANCES

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("streams", "code"),
    [("2>/dev/full", 0), ("2>&-", 0), (">/dev/full", 2), (">&-", 0), ("| head -1", 0)],
)
def test_nothing_is_lost(streams: str, code: int, tmp_path: Path) -> None:
    """A full disk under standard error ended the run before there was a plan."""
    file = INSTANCES / "gang-beats-single.json"
    program = f"{sys.executable} -m milp_plan solve {file} --time-limit 30"
    command = f"{program} --record-folder {tmp_path}/runs --plan-output {tmp_path}/p.json {streams}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "p.json").is_file()
    assert len([*(tmp_path / "runs").iterdir()]) == 2
