"""Helper processes, which end with this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

PARENT_EVERY_S = 1.0
"""Seconds between two checks that the parent still runs."""


def spawn(module: str, *, quiet: bool) -> subprocess.Popen[bytes]:
    """Start a module of this package as a process that is spoken to by its standard streams.

    It imports what this process would import, and nothing because of the folder it stands in.

    Parameters
    ----------
    module
        Full name; its ``main`` calls :func:`watch` with the process id it is given.
    quiet
        Whether what it writes to standard error is of no interest.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        start_new_session=True,  # Ctrl-C reaches us first; we decide what the process does
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    )


def end(process: subprocess.Popen[bytes]) -> int:
    """Kill a process of :func:`spawn` and all that it started; return its exit code."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    code = process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # what it never read is lost with it
                stream.close()
    return code


def watch(parent: int) -> None:
    """End this process when its parent does: a killed one cannot end us."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_EVERY_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
