"""Helper processes that end when this process ends."""

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
    """Start a module of this package as a process with piped standard streams.

    It has the import path of this process; the current folder adds nothing to it.

    Parameters
    ----------
    module
        Full name of the module; its ``main`` calls :func:`watch` with the process id it gets.
    quiet
        Whether its standard error is discarded.
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
            with contextlib.suppress(BrokenPipeError):  # data that it did not read is dropped
                stream.close()
    return code


def watch(parent: int) -> None:
    """End this process when its parent ends: a killed parent cannot end it."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_EVERY_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
