"""The only notion of time: how much of a limit is left, and who took what of it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

now = time.monotonic
"""Returns seconds of the clock of all budgets; this package uses no other clock."""

_START_TICKS = 19
"""Index of ``starttime`` after the name of the program in ``/proc/self/stat``; see proc(5)."""

LARGEST_SETTING = 2**31 - 1
"""Maximum of seeds, threads, rounds and nodes: solvers take them in 32 bits."""

LONGEST_S = 1e9
"""Seconds (31 years) from which a limit counts as none: system clocks may not count further."""

AGAIN_S = 0.25
"""Seconds until an alarm is raised again: an exception in a destructor is lost."""


class OutOfTime(Exception):
    """A computation stopped before it was finished; it has no result."""


class TimeIsUp(BaseException):
    """The alarm has expired; only the code that set it may catch this."""


_suspended: ContextVar[bool] = ContextVar("suspended", default=False)
"""Whether the code runs inside :func:`undisturbed`."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delay the alarm inside: a module whose import is interrupted may not be importable again."""
    before = _suspended.set(True)
    try:
        yield
    finally:
        _suspended.reset(before)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeIsUp` inside after some seconds, wherever the interpreter is then.

    This is for code that does not check its budget: a library that builds a model, a long sort.
    Compiled code is not interrupted. Outside the main thread, or where the system has no such
    signals, nothing is interrupted.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "setitimer") or seconds >= LONGEST_S:
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        if not _suspended.get():
            raise TimeIsUp

    def lost(error: sys.UnraisableHookArgs) -> None:
        if error.exc_type is not TimeIsUp:  # it is raised again later
            hook(error)

    before, hook = signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    sys.unraisablehook = lost
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, seconds), AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def process_began(stat: Path = Path("/proc/self/stat")) -> float:
    """Return when this process started, on the clock :data:`now`.

    Loading Python and its packages counts against a time limit, too. Where the system does not
    report the start, the processor time of the process is taken as its age.
    """
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        born = int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - born
    except (OSError, ValueError, IndexError, AttributeError):
        age = time.process_time()
    return now() - max(0.0, age)


class Budget:
    """Time and nodes of a run or of a part of it.

    Parameters
    ----------
    limit_s
        Time limit in seconds; ``None`` for none.
    nodes
        Branch-and-bound nodes per model. With it a run is *repeatable*: nothing but the whole
        limit depends on the clock.
    began
        When the seconds began to count, on the clock :data:`now`; now by default.

    Attributes
    ----------
    phases
        Seconds spent, by the name of the phase.
    shares
        Seconds assigned to parts, by the name of the part.
    """

    def __init__(
        self, limit_s: float | None = None, nodes: int | None = None, *, began: float | None = None
    ) -> None:
        self.began = now() if began is None else began
        self.limit_s = float("inf") if limit_s is None or limit_s >= LONGEST_S else limit_s
        self.nodes = nodes
        self.phases: dict[str, float] = {}
        self.shares: dict[str, float] = {}

    @property
    def repeatable(self) -> bool:
        """Whether only nodes, rounds and the whole time limit end computations."""
        return self.nodes is not None

    @property
    def end(self) -> float:
        """Time at which the limit is reached, on the clock :data:`now`; possibly infinite."""
        return self.began + self.limit_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the budget began."""
        return now() - self.began

    @property
    def left_s(self) -> float:
        """Seconds left, possibly infinite, at least 0."""
        return max(0.0, self.end - now())

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return now() >= self.end

    def check(self) -> None:
        """Raise :class:`OutOfTime` if no time is left."""
        if self.over:
            raise OutOfTime

    def part(self, name: str, share: float = 1.0, *, of_limit: bool = True) -> Budget:
        """Return a part of the budget: a share of the limit or of the time left, within the whole.

        In a repeatable run a part ends when the whole does.

        Parameters
        ----------
        name
            Name of the part in :attr:`shares`.
        share
            Share, at most 1.
        of_limit
            Whether the share is of the whole limit; otherwise of the time left.
        """
        return self.at_most(name, share * (self.limit_s if of_limit else self.left_s))

    def at_most(self, name: str, seconds: float) -> Budget:
        """Return a part of at most some seconds, or of the time left if that is less."""
        left = self.left_s
        part = Budget(left if self.repeatable else min(left, seconds), self.nodes)
        part.phases, part.shares = self.phases, self.shares
        self.shares[name] = self.shares.get(name, 0.0) + part.limit_s
        return part

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        began = now()
        try:
            yield
        finally:
            self.add(name, now() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a phase."""
        self.phases[name] = self.phases.get(name, 0.0) + seconds
