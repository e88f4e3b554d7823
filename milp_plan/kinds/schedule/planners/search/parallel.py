"""Annealing in several threads, in rounds that begin where the best ones ended.

With enough time, several epochs of such rounds begin anew: see :mod:`.rounds`. The compiled loops
release the interpreter lock, so threads run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget, now

from ..constructions.portfolio import MOST_SCHEDULES, Start, best_starts, placed
from ..decoder import NEVER, Decoder
from ..decoder.layout import Ints
from .annealing import COLDEST, HOTTEST, Annealing, plan_of
from .rounds import (
    COOLEST,
    ROUND_MOVES_EACH,
    ROUND_S_EACH,
    Clock,
    Epoch,
    epochs_for,
    first_temperature,
)
from .states import State

RESTART_GAP = 0.01
"""Largest relative gap to the best state at which a search continues from its own best state."""

POLL_S = 0.2
"""Seconds between two reads of the results of the threads."""

REPORT_INTERVAL_FACTOR = 10
"""Minimum pause between reports, as a multiple of the last report's duration: the check of a
reported plan takes the core of a search."""

RANK_GAP = 1024
"""Difference between two neighbouring ranks, which leaves room for further ranks."""


class AnnealingRound(NamedTuple):
    """Settings of a round of annealing.

    Parameters
    ----------
    temperature
        First temperature, as a part of the hottest.
    soft
        Whether states may exceed the memory, at a penalty.
    """

    temperature: float
    soft: bool


class ParallelAnnealing:
    """Several annealing searches of one problem, each in a thread.

    Parameters
    ----------
    problem
        A problem whose plans have a schedule.
    seed
        Seed of the random choices.
    threads
        Number of searches that run at once.

    Attributes
    ----------
    starts
        States to start from, the best first.
    """

    def __init__(self, problem: PlanningProblem, seed: int = 0, threads: int = 1) -> None:
        self.problem = problem
        self.decoder = Decoder(problem)
        self.searches = [
            Annealing(problem, seed * 1009 + n, holding=n % 2 == 0) for n in range(threads)
        ]
        self.starts: list[State] = []
        self._given: set[int] = set()
        self._later: State | None = None
        self._stop = Event()
        self._pending: State | None = None
        self._ends: list[State] = []
        self._reported = NEVER
        self._quiet_until = 0.0

    # -- where to begin ----------------------------------------------------------------------------

    def construct(
        self,
        budget: Budget,
        relaxed: PlanningProblem | None = None,
        *,
        on_better: Callable[[Plan], object] | None = None,
        most: int = MOST_SCHEDULES,
    ) -> None:
        """Add the best constructions to the starts.

        Parameters
        ----------
        budget
            No further construction is scheduled when it is over.
        relaxed
            A variant of the problem with more memory, whose constructions to take instead.
        on_better
            Called with the plan of each better construction, but not too soon after the last
            call, and with the best one at the end; not allowed together with ``relaxed``.
        most
            Largest number of schedules.
        """
        problem = relaxed or self.problem
        decoder = self.decoder if relaxed is None else Decoder(relaxed)

        def collect(start: Start) -> None:
            if on_better is not None:
                self._collect(_state(decoder, start), on_better)

        count = len(self.searches) + 2
        for start in best_starts(
            problem, decoder, budget, count=count, most=most, on_better=collect
        ):
            self.begin_at(_state(decoder, start))
        if on_better is not None:
            self._collect(None, on_better, last=True)

    def add(self, plan: Plan) -> None:
        """Add a plan to the starts: what starts first is the most urgent."""
        site, option = self.decoder.place({run.operator: run.placement for run in plan.runs})
        names = [operator.name for operator in self.decoder.compiled.operators]
        starts = np.array([float(plan.run(name).start_ticks or 0) for name in names])
        self._given.add(self.begin_at(State(site, option, _spread(starts), 0)))

    def begin_at(self, state: State) -> int:
        """Add a state to the starts if it has a schedule; return its value in this problem."""
        search = self.searches[0]
        if not search.begin(state):
            return NEVER
        self.starts.append(state._replace(value=search.value))
        self.starts.sort(key=lambda start: start.value)
        return search.value

    def begin_later(self, state: State) -> None:
        """Add a state when half of the rounds are over, if it is the best one then.

        Earlier, a state that is far ahead would draw all searches to itself.
        """
        if self.starts:
            self._later = state
        else:
            self.begin_at(state)

    @property
    def first(self) -> Plan | None:
        """The plan of the best start."""
        return plan_of(self.decoder, self.starts[0], "construction") if self.starts else None

    def load(self) -> None:
        """Compile the loops of a search or read them from disk, in this thread."""
        self.searches[0].begin(self.starts[0])
        self.searches[0].load()

    def stop(self) -> None:
        """End the search that runs in another thread, soon, and any that would follow."""
        self._stop.set()

    # -- rounds ------------------------------------------------------------------------------------

    def run(
        self,
        budget: Budget,
        moves: int | None = None,
        on_better: Callable[[Plan], object] = lambda _plan: None,
    ) -> None:
        """Search until the budget ends or, in a repeatable run, for ``moves`` of each search.

        ``on_better`` is called in this thread with the plan of a better state, soon after it was
        found unless these calls take long. It gets the last one also when the search is
        interrupted.
        """
        if not self.starts:
            return
        self._report(self.starts[0], on_better)
        self.load()
        rounds = self._num_rounds(budget, moves)
        hottest = min(1.0, max(COOLEST, rounds))
        for epoch in epochs_for(rounds):
            self._epoch(epoch, hottest, budget, moves, on_better)
            if self._stop.is_set():
                return

    def _epoch(
        self,
        epoch: Epoch,
        hottest: float,
        budget: Budget,
        moves: int | None,
        on_better: Callable[[Plan], object],
    ) -> None:
        begins = self._initial_states(epoch)
        spans, failed_rounds = [epoch.span(number) for number in range(epoch.rounds)], 0
        if epoch.first and (rival := self._alternative_start) is not None:
            since, until = spans[0]
            half = (since + until) / 2
            clock = Clock(budget, (since, half), moves, self._stop)
            self._round([rival], clock, AnnealingRound(hottest, soft=False), on_better)
            spans[0] = half, until
        for number, span in enumerate(spans):
            clock = Clock(budget, span, moves, self._stop)
            known = min(self._epoch_best.value, begins[0].value)
            left = epoch.rounds - 1 - number
            temperature = first_temperature(left, failed_rounds) * hottest
            settings = AnnealingRound(temperature, soft=number % 2 == 1)
            self._round(begins, clock, settings, on_better)
            if self._stop.is_set():
                return
            best = self._epoch_best
            failed_rounds = 0 if best.value < known else failed_rounds + 1
            if best.value == NEVER:
                continue
            begins = [
                own if (own := search.best).value <= best.value * (1 + RESTART_GAP) else best
                for search in self.searches
            ]
            if epoch.last and number + 1 == epoch.rounds // 2 and self._later is not None:
                begins[0] = min(begins[0], self._later, key=lambda state: state.value)

    def _initial_states(self, epoch: Epoch) -> list[State]:
        """Return the states in which the searches begin an epoch; set aside earlier results."""
        self._ends.append(self._epoch_best)
        self._ends.sort(key=lambda end: end.value)
        del self._ends[max(1, len(self.searches)) :]
        for search in self.searches:
            search.forget()
        choices = self.starts
        if epoch.last and not epoch.first:
            limit = self._ends[0].value * (1 + RESTART_GAP)
            choices = [end for end in self._ends if end.value <= limit]
        return [choices[n % len(choices)] for n in range(len(self.searches))]

    @property
    def _alternative_start(self) -> State | None:
        """Return the start that a single search tries first, in half of the first round.

        An added plan, made for less memory, may be a local optimum that a search does not leave.
        Several searches begin from several starts anyway.
        """
        first = self.starts[0].value
        if len(self.searches) > 1 or first not in self._given:
            return None
        return next((one for one in self.starts if one.value > first), None)

    @property
    def _epoch_best(self) -> State:
        """The best state of this epoch."""
        return min((search.best for search in self.searches), key=lambda state: state.value)

    @property
    def best(self) -> State:
        """The best state that any search found."""
        return min([self._epoch_best, *self._ends], key=lambda state: state.value)

    @property
    def round_s(self) -> float:
        """Seconds of one round."""
        return ROUND_S_EACH * self.decoder.size

    def _num_rounds(self, budget: Budget, moves: int | None) -> float:
        """Return the number of rounds that fit into the time or the moves."""
        if moves is None:
            return budget.limit_s / self.round_s
        return moves / (ROUND_MOVES_EACH * self.decoder.size)

    def _round(
        self,
        begins: Sequence[State],
        clock: Clock,
        settings: AnnealingRound,
        on_better: Callable[[Plan], object],
    ) -> None:
        results: SimpleQueue[State | BaseException] = SimpleQueue()
        threads = [
            Thread(
                target=_run_annealing, args=(search, begin, clock, settings, results), daemon=True
            )
            for search, begin in zip(self.searches, begins, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(POLL_S)
                for thread in threads[1:]:
                    thread.join(0.0 if threads[0].is_alive() else POLL_S)
                self._collect(_best_of(results), on_better)
        except BaseException:
            self._stop.set()
            raise
        finally:
            for thread in threads:
                thread.join()
            self._collect(_best_of(results), on_better, last=True)

    def _collect(
        self,
        state: State | None,
        on_better: Callable[[Plan], object],
        *,
        last: bool = False,
    ) -> None:
        """Report the best state that was collected, if not too soon after the last report."""
        if state is not None and state.value < self._reported:
            self._pending, self._reported = state, state.value
        if self._pending is not None and (last or now() >= self._quiet_until):
            best, self._pending, began = self._pending, None, now()
            self._report(best, on_better)
            self._quiet_until = now() + REPORT_INTERVAL_FACTOR * (now() - began)

    def _report(self, state: State, on_better: Callable[[Plan], object]) -> None:
        plan = plan_of(self.decoder, state, "annealing")
        if plan is not None:
            on_better(plan)

    @property
    def tried(self) -> int:
        """Moves of all searches."""
        return sum(search.tried for search in self.searches)

    @property
    def scheduled(self) -> int:
        """Schedules of all searches: moves that cannot change the schedule do not count."""
        return self.tried - sum(search.spared for search in self.searches)


def _run_annealing(
    search: Annealing,
    begin: State,
    clock: Clock,
    settings: AnnealingRound,
    results: SimpleQueue[State | BaseException],
) -> None:
    """Run a round of annealing, in a thread of its own."""
    try:
        if search.begin(begin, soft=settings.soft):
            hottest = HOTTEST * settings.temperature
            search.run(clock.of(search), hottest, COLDEST, results.put, clock.most)
    except BaseException as error:  # raised again in the thread that waits
        results.put(error)


def _best_of(results: SimpleQueue[State | BaseException]) -> State | None:
    """Return the best state in a queue; raise an error that is in it."""
    best: State | None = None
    while True:
        try:
            entry = results.get_nowait()
        except Empty:
            return best
        if isinstance(entry, BaseException):
            raise entry
        if best is None or entry.value < best.value:
            best = entry


def _state(decoder: Decoder, start: Start) -> State:
    """Return the state of a construction."""
    site, option, rank = placed(decoder, start)
    return State(site, option, rank * RANK_GAP, start.value)


def _spread(weights: NDArray[np.float64]) -> Ints:
    """Return ranks in the order of weights, with gaps between them; equal weights stay equal."""
    return np.unique(weights, return_inverse=True)[1].astype(np.int64) * RANK_GAP
