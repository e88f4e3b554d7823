"""Compiles loops in other processes while the run goes on.

``python -m milp_plan.run.compiling PID`` reads the name of a function and calls it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from threading import Condition, Thread
from types import TracebackType

from milp_plan.core.budget import now
from milp_plan.core.process import end, spawn, watch

from .loop_parts import LoopPart, call

LOW_PRIORITY_NICE = 10
"""Niceness that is added to a compiling process at low priority."""

POLL_S = 0.05
"""Seconds between two looks at the compiling processes."""

COMPILING_MESSAGE = (
    "compiling loops in the background (in the first run only; "
    "milp-plan compile does it in advance)"
)
"""Progress message while loops are being compiled."""


class Compiling:
    """Processes that compile those parts of the loops that are not stored on disk yet.

    They begin in the order of the parts, at most as many at a time as there are processors, and
    end with the ``with`` block at the latest; what they have compiled by then stays on disk.

    Parameters
    ----------
    parts
        Parts of the loops, in the order in which they will be needed.
    compile_at_low_priority
        Whether the processes use only processor time that this process does not use.
    """

    def __init__(self, parts: Iterable[LoopPart], *, compile_at_low_priority: bool = False) -> None:
        self.compile_at_low_priority = compile_at_low_priority
        self.parts = tuple(part for part in dict.fromkeys(parts) if not part.on_disk)
        self._waiting = list(self.parts)
        self._running: dict[LoopPart, subprocess.Popen[bytes]] = {}
        self._changed = Condition()
        if self.parts:
            Thread(target=self._work, daemon=True).start()

    def __enter__(self) -> Compiling:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop(self.parts)

    def at_work(self, parts: Iterable[LoopPart]) -> bool:
        """Whether one of these parts is being compiled, or will be."""
        with self._changed:
            return not self._idle(parts)

    def wait(self, parts: Iterable[LoopPart], seconds: float) -> None:
        """Wait for these parts, at most some seconds; then stop those that are not done."""
        awaited, until = tuple(parts), now() + seconds
        with self._changed:
            while not self._idle(awaited) and (left := until - now()) > 0:
                self._changed.wait(min(left, 1.0))
        self.stop(awaited)

    def stop(self, parts: Iterable[LoopPart]) -> None:
        """End the processes of these parts; do not start those that wait."""
        with self._changed:
            for part in parts:
                if part in self._waiting:
                    self._waiting.remove(part)
                if (process := self._running.pop(part, None)) is not None:
                    end(process)
            self._changed.notify_all()

    def _idle(self, parts: Iterable[LoopPart]) -> bool:
        return not any(part in self._waiting or part in self._running for part in parts)

    def _next(self) -> LoopPart | None:
        """Return the next part whose compilation can start; ``None`` if there is none."""
        missing = {part.name for part in (*self._waiting, *self._running)}
        return next((part for part in self._waiting if part.after not in missing), None)

    def _work(self) -> None:
        """Start processes as others end; runs in a thread."""
        most = os.cpu_count() or 1
        with self._changed:
            while self._waiting or self._running:
                for part, process in list(self._running.items()):
                    if process.poll() is not None:
                        end(self._running.pop(part))
                        self._changed.notify_all()
                while len(self._running) < most and (ready := self._next()) is not None:
                    self._waiting.remove(ready)
                    self._running[ready] = _start_process(ready)
                    if self.compile_at_low_priority:
                        _lower_priority(self._running[ready])
                self._changed.wait(POLL_S)


_STARTED_EARLY: list[tuple[frozenset[LoopPart], Compiling]] = []
"""Parts and processes that :func:`begin` started, until a run takes them over."""


def begin(parts: Iterable[LoopPart]) -> None:
    """Start compiling the parts that a run will need, while its problem is still being read."""
    required = tuple(parts)
    if required and not _STARTED_EARLY:
        _STARTED_EARLY.append((frozenset(required), Compiling(required)))


def compile_in_background(
    parts: Iterable[LoopPart], *, compile_at_low_priority: bool = False
) -> Compiling:
    """Start compiling parts, or take over what :func:`begin` started if it covers them all."""
    required = tuple(parts)
    if _STARTED_EARLY:
        covered, compiling = _STARTED_EARLY.pop()
        if required and covered.issuperset(required):
            return compiling
        compiling.stop(compiling.parts)
    return Compiling(required, compile_at_low_priority=compile_at_low_priority)


def _lower_priority(process: subprocess.Popen[bytes]) -> None:
    """Lower the priority of a process, where the system supports it."""
    with suppress(AttributeError, OSError):
        before = os.getpriority(os.PRIO_PROCESS, process.pid)
        os.setpriority(os.PRIO_PROCESS, process.pid, before + LOW_PRIORITY_NICE)


def _start_process(part: LoopPart) -> subprocess.Popen[bytes]:
    """Start a process that compiles a part."""
    process = spawn(__name__, quiet=True)
    assert process.stdin is not None
    process.stdin.write(f"{part.function}\n".encode())
    process.stdin.close()
    return process


def main() -> None:
    """Call the function whose name is read from standard input."""
    import sys

    watch(int(sys.argv[1]))
    call(sys.stdin.readline().strip())


if __name__ == "__main__":
    main()
