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
"""Seconds on the clock that every budget reads; nothing else in this package reads another."""

_START_TICKS = 19
"""Field of ``/proc/self/stat`` behind the name of the program; see proc(5), ``starttime``."""

LARGEST_SETTING = 2**31 - 1
"""Of seeds, threads, rounds and nodes: solvers take them in 32 bits."""

LONGEST_S = 1e9
"""A limit of so many seconds or more, 31 years, is none: clocks of systems count no further."""

AGAIN_S = 0.25
"""Seconds until an alarm rings again: what is raised in a destructor is lost."""


class OutOfTime(Exception):
    """Something was given up before it was finished; nothing is known from it."""


class TimeIsUp(BaseException):
    """The alarm has rung: nothing but whoever set it may catch this."""


_held: ContextVar[bool] = ContextVar("held", default=False)
"""Whether an :func:`undisturbed` is going on."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let the alarm wait: a module that is imported halfway may never be imported again."""
    before = _held.set(True)
    try:
        yield
    finally:
        _held.reset(before)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeIsUp` inside when so many seconds are over, wherever Python is then.

    For code that does not look at its budget: a library that builds a model, a long sort. Code
    that is not Python is not interrupted, and outside the main thread, or where the system has no
    such signals, nothing is.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "setitimer") or seconds >= LONGEST_S:
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        if not _held.get():
            raise TimeIsUp

    def lost(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is not TimeIsUp:  # it rings again: nobody needs to hear of this time
            hook(what)

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

    Loading Python and its packages takes seconds of a time limit, too. Where the system does not
    say: so long ago as the process has used the processor.
    """
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        born = int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - born
    except (OSError, ValueError, IndexError, AttributeError):
        age = time.process_time()
    return now() - max(0.0, age)


class Budget:
    """What a run, or a part of it, may take.

    Parameters
    ----------
    limit_s
        Seconds; ``None`` never ends.
    nodes
        Branch-and-bound nodes per model. With it a run is *repeatable*: nothing but the whole
        limit depends on the clock.
    began
        When the seconds began to count, on the clock :data:`now`; at once unless given.

    Attributes
    ----------
    phases
        Seconds by the name of what took them.
    shares
        Seconds that were handed out, by the name of the part.
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
        """Whether only nodes, rounds and the whole limit may end anything."""
        return self.nodes is not None

    @property
    def end(self) -> float:
        """When the limit is reached, on the clock :data:`now`; possibly infinite."""
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
        """Whether nothing is left."""
        return now() >= self.end

    def check(self) -> None:
        """Raise :class:`OutOfTime` when nothing is left."""
        if self.over:
            raise OutOfTime

    def part(self, name: str, share: float = 1.0, *, of_limit: bool = True) -> Budget:
        """Hand out a part: a share of the limit, or of what is left; never beyond the whole.

        In a repeatable run a part ends when the whole does.

        Parameters
        ----------
        name
            Of what it is for, in :attr:`shares`.
        share
            At most 1.
        of_limit
            Whether of the whole limit; otherwise of what is left.
        """
        return self.at_most(name, share * (self.limit_s if of_limit else self.left_s))

    def at_most(self, name: str, seconds: float) -> Budget:
        """Hand out a part of so many seconds, or what is left if that is less."""
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
