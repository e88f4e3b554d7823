"""An environment of the peers' own, ``.venv-peers``, made when it is first needed."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parent.parent.parent / ".venv-peers"
ORTOOLS = "ortools==9.15.6755"


@cache
def peer_python() -> str:
    """Return the interpreter of the peers' environment, made where there is none yet."""
    python = ENVIRONMENT / "bin" / "python"
    ENVIRONMENT.mkdir(exist_ok=True)
    with (ENVIRONMENT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = ENVIRONMENT / ".ready"
        if not ready.is_file() or ready.read_text() != ORTOOLS:
            base = getattr(sys, "_base_executable", sys.executable)
            _quietly([base, "-m", "venv", "--without-pip", str(ENVIRONMENT)])
            pip = [base, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
            _quietly([*pip, "install", "--quiet", ORTOOLS])
            ready.write_text(ORTOOLS)
    return str(python)


def _quietly(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
