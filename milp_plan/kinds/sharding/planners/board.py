"""State shared by the workers of a search: best plan, best bound, and the remaining problem."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from milp_plan.core.budget import now
from milp_plan.core.gap import within

from ..bounds import BOUND
from ..choice_bounds import Choice
from ..coarsen import ShardingReduction
from ..labelling import Integers, Labelling


@dataclass(frozen=True)
class Sighting:
    """Progress at a moment: best cost, best bound with its name, elapsed time, and the source."""

    value: int | None
    bound: int | None
    elapsed_s: float
    phase: str
    bound_by: str = BOUND


@dataclass(frozen=True, eq=False)
class Narrowed:
    """The remaining problem below a known cost.

    Parameters
    ----------
    reduction
        The problem reduced without labels that no better plan takes; with its steps back.
    target
        The known cost; ``None`` where no label was removed.
    """

    reduction: ShardingReduction
    target: int | None


class Board:
    """State shared by the workers; all methods are thread-safe.

    Parameters
    ----------
    labelling
        The problem.
    time_limit_s
        Time limit from now.
    gap
        Relative gap at which to stop.
    """

    def __init__(self, labelling: Labelling, time_limit_s: float, gap: float) -> None:
        self.labelling, self.gap = labelling, gap
        self.narrowed = Narrowed(ShardingReduction(labelling, ()), None)
        self.began = now()
        self.time_limit_s = time_limit_s
        self.value: int | None = None
        self.labels: Integers | None = None
        self.bound: int | None = None
        self.bound_by = BOUND
        self.phase = "bound"
        self.stopped = threading.Event()
        self.failure: BaseException | None = None
        self.interrupted = False
        self.settled = False
        self._lock = threading.Lock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return now() - self.began

    @property
    def over(self) -> bool:
        """Whether to stop: time up, gap closed, or stop requested."""
        return self.stopped.is_set() or self.elapsed_s >= self.time_limit_s

    @property
    def proved(self) -> bool:
        """Whether the required gap is reached."""
        with self._lock:
            return within(self.value, self.bound, self.gap)

    def offer(self, labels: Integers) -> int | None:
        """Accept a choice if it is a plan and better; return its exact cost if it is a plan."""
        value = self.labelling.value(labels)
        if value is None or (self.labelling.load(labels) > self.labelling.capacity).any():
            return None
        with self._lock:
            if self.value is None or value < self.value:
                self.value, self.labels = value, labels.copy()
                self._close()
        return value

    def prove(self, bound: int, by: str = BOUND) -> None:
        """Accept a bound if it is better."""
        with self._lock:
            if self.bound is None or bound > self.bound:
                self.bound, self.bound_by = bound, by
                self._close()

    def settle(self, choice: Choice, by: str) -> None:
        """Accept the optimal choice, or the proof that none is a plan."""
        self.settled = True
        value = None if choice.labels is None else self.offer(choice.labels)
        if value is not None:
            self.prove(value, by)
        self.stopped.set()

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that no choice is a plan."""
        return self.settled and self.labels is None

    def best(self) -> Integers | None:
        """Return the best choice so far."""
        with self._lock:
            return None if self.labels is None else self.labels.copy()

    def sighting(self) -> Sighting:
        """Return the current progress."""
        with self._lock:
            return Sighting(self.value, self.bound, self.elapsed_s, self.phase, self.bound_by)

    def _close(self) -> None:
        """Stop once the gap is closed; the caller holds the lock."""
        if within(self.value, self.bound, self.gap):
            self.stopped.set()
