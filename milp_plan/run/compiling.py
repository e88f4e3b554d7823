"""Loops that a run meets uncompiled: another process compiles them while this one goes on.

``python -m milp_plan.run.compiling PID`` reads the name of a part of :mod:`.loops` and compiles it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from milp_plan.core.budget import now
from milp_plan.core.compiled import kept
from milp_plan.core.process import end, spawn, watch

SHARDING_SEARCH = "sharding search"
"""The part of the loops that a run on a sharding problem needs once it has reduced it."""


class Compiling:
    """A process that compiles a part of the loops, where one of them is not kept on disk yet.

    Parameters
    ----------
    part
        One of :data:`milp_plan.run.loops.PARTS`.
    loop
        One of its loops, the last to be compiled.
    """

    def __init__(self, part: str, loop: Callable[..., object]) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if kept(loop):
            return
        self.process = spawn(__name__, quiet=True)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{part}\n".encode())
        self.process.stdin.close()

    @property
    def at_work(self) -> bool:
        """Whether it is at work."""
        return self.process is not None and self.process.poll() is None

    def wait(self, seconds: float) -> None:
        """Wait for it, so long at most, and end it: what it has compiled by then stays."""
        if self.process is None:
            return
        until = now() + seconds
        try:
            self.process.wait(max(0.0, until - now()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            end(self.process)
            self.process = None


def main() -> None:
    """Compile what the standard input names."""
    watch(int(sys.argv[1]))
    from .loops import compile_part

    compile_part(sys.stdin.readline().strip())


if __name__ == "__main__":
    main()
