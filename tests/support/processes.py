"""Modules as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
"""Only against a test that hangs."""


def start(folder: Path, module: str, *arguments: object, **more: str) -> subprocess.Popen[str]:
    """Start a module in a folder, with more environment."""
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", module, *(str(argument) for argument in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", **more},
    )


def heard_until_a_plan(process: subprocess.Popen[str]) -> str:
    """Read the log until there are a plan and a bound; return what was read."""
    assert process.stderr is not None
    heard = []
    for line in process.stderr:
        heard.append(line)
        if "incumbent" in line and "—" not in line:
            break
    return "".join(heard)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end; return exit code and both outputs."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    return process.returncode, out, err
