"""Loops that a run meets uncompiled: other processes compile them while this one goes on.

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

PATIENCE = 10
"""By how much the priority of a process that compiles is lowered where others come first."""

LOOK_S = 0.05
"""How often a process that compiles is looked at."""

COMPILING_MESSAGE = (
    "compiling loops beside (the first run alone; milp-plan compile does it in advance)"
)
"""What a run tells that does so."""


class Compiling:
    """Processes that compile parts of the loops that are not kept on disk yet.

    They begin in the order of the parts, so many at a time as there are processors, and end with
    the ``with`` block at the latest; what they have compiled by then stays.

    Parameters
    ----------
    parts
        In the order in which they will be needed.
    patient
        Whether they use only processor time that this process leaves.
    """

    def __init__(self, parts: Iterable[LoopPart], *, patient: bool = False) -> None:
        self.patient = patient
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
        """Wait for these parts, so long at most, and give up those that are not done then."""
        asked, until = tuple(parts), now() + seconds
        with self._changed:
            while not self._idle(asked) and (left := until - now()) > 0:
                self._changed.wait(min(left, 1.0))
        self.stop(asked)

    def stop(self, parts: Iterable[LoopPart]) -> None:
        """End the processes of these parts, and begin none."""
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
        """Return the next part to begin."""
        missing = {part.name for part in (*self._waiting, *self._running)}
        return next((part for part in self._waiting if part.after not in missing), None)

    def _work(self) -> None:
        """Begin processes as others end; runs in a thread."""
        most = os.cpu_count() or 1
        with self._changed:
            while self._waiting or self._running:
                for part, process in list(self._running.items()):
                    if process.poll() is not None:
                        end(self._running.pop(part))
                        self._changed.notify_all()
                while len(self._running) < most and (ready := self._next()) is not None:
                    self._waiting.remove(ready)
                    self._running[ready] = _begun(ready)
                    if self.patient:
                        _lower(self._running[ready])
                self._changed.wait(LOOK_S)


_AHEAD: list[tuple[frozenset[LoopPart], Compiling]] = []
"""What :func:`begin` has begun, until a run takes it over."""


def begin(parts: Iterable[LoopPart]) -> None:
    """Begin to compile what a run will need, while its problem is still being read."""
    asked = tuple(parts)
    if asked and not _AHEAD:
        _AHEAD.append((frozenset(asked), Compiling(asked)))


def beside(parts: Iterable[LoopPart], *, patient: bool = False) -> Compiling:
    """Return what compiles these parts: begun by :func:`begin`, if it named them all."""
    asked = tuple(parts)
    if _AHEAD:
        named, begun = _AHEAD.pop()
        if asked and named.issuperset(asked):
            return begun
        begun.stop(begun.parts)
    return Compiling(asked, patient=patient)


def _lower(process: subprocess.Popen[bytes]) -> None:
    """Lower the priority of a process, where the system has such a thing."""
    with suppress(AttributeError, OSError):
        before = os.getpriority(os.PRIO_PROCESS, process.pid)
        os.setpriority(os.PRIO_PROCESS, process.pid, before + PATIENCE)


def _begun(part: LoopPart) -> subprocess.Popen[bytes]:
    """Start a process that compiles a part."""
    process = spawn(__name__, quiet=True)
    assert process.stdin is not None
    process.stdin.write(f"{part.function}\n".encode())
    process.stdin.close()
    return process


def main() -> None:
    """Call the function that the standard input names."""
    import sys

    watch(int(sys.argv[1]))
    call(sys.stdin.readline().strip())


if __name__ == "__main__":
    main()
