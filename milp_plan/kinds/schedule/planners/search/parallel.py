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

from milp_plan.core import Objective, Plan, PlanningProblem
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
from .sequences import COLDEST as SEQUENCE_COLDEST
from .sequences import HOTTEST as SEQUENCE_HOTTEST
from .sequences import RELOCATE_SHARE, Sequences, Timed
from .states import State

RESTART_GAP = 0.01
"""Largest relative gap to the best state at which a search continues from its own best state."""

REHEAT = 3.0
"""Factor on the first temperature of rounds over sequences where there are several epochs: from a
local optimum, better plans are reached through worse ones only."""

POLL_S = 0.2
"""Seconds between two reads of the results of the threads."""

REPORT_INTERVAL_FACTOR = 10
"""Minimum pause between reports, as a multiple of the last report's duration: the check of a
reported plan takes the core of a search."""

RANK_GAP = 1024
"""Difference between two neighbouring ranks, which leaves room for further ranks."""

Result = State | Timed
"""What a search reports."""


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


class SequenceRound(NamedTuple):
    """A round of the search over sequences.

    Parameters
    ----------
    search
        The search, which stands at the plan to start from.
    temperature
        First temperature.
    relocate_share
        Part of the moves that place units elsewhere.
    """

    search: Sequences
    temperature: float
    relocate_share: float


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
    sequences
        Whether one of the threads searches over sequences in some rounds.

    Attributes
    ----------
    starts
        States to start from, the best first.
    """

    def __init__(
        self, problem: PlanningProblem, seed: int = 0, threads: int = 1, *, sequences: bool = True
    ) -> None:
        self.problem, self.seed = problem, seed
        self.sequences_allowed = sequences and problem.objective is Objective.MAKESPAN
        self.decoder = Decoder(problem)
        self.searches = [
            Annealing(problem, seed * 1009 + n, holding=n % 2 == 0) for n in range(threads)
        ]
        self.sequences: Sequences | None = None
        self.starts: list[State] = []
        self._given: set[int] = set()
        self._later: State | None = None
        self._stop = Event()
        self._pending: Result | None = None
        self._ends: list[Result] = []
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
            self._round([rival], clock, AnnealingRound(hottest, soft=False), on_better, None)
            spans[0] = half, until
        for number, span in enumerate(spans):
            clock = Clock(budget, span, moves, self._stop)
            known = min(self._epoch_best.value, begins[0].value)
            left = epoch.rounds - 1 - number
            temperature = first_temperature(left, failed_rounds) * hottest
            settings = AnnealingRound(temperature, soft=number % 2 == 1)
            sequences = self._sequence_round(epoch, number, temperature)
            self._round(begins, clock, settings, on_better, sequences)
            if self._stop.is_set():
                return
            best = self._to_state(self._epoch_best)
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
        if self.sequences is not None:
            self.sequences.forget()
        choices = self.starts
        if epoch.last and not epoch.first:
            limit = self._ends[0].value * (1 + RESTART_GAP)
            choices = [self._to_state(end) for end in self._ends if end.value <= limit]
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

    def _sequence_round(
        self, epoch: Epoch, number: int, temperature: float
    ) -> SequenceRound | None:
        """Return a round over sequences from the best plan; ``None`` in rounds without one.

        It replaces one annealing search in the later rounds, or in every other of these where
        there is one thread. With several epochs, units are not relocated in the last of these
        rounds and in every other one before. There is none where memory decides which orders are
        allowed.
        """
        after, every = epoch.rounds - 1 - number, 1 if len(self.searches) > 1 else 2
        if not self.sequences_allowed or number < epoch.rounds // 2 or after % every:
            return None
        if self.sequences is None:
            self.sequences = Sequences(self.problem, self.seed)
        plan = self._best_plan(epoch)
        if plan is None or not self.sequences.begin(plan):
            return None
        self.sequences.load()
        if epoch.alone:
            return SequenceRound(self.sequences, SEQUENCE_HOTTEST * temperature, RELOCATE_SHARE)
        relocate_share = RELOCATE_SHARE if after // every % 2 else 0.0
        return SequenceRound(self.sequences, SEQUENCE_HOTTEST * REHEAT, relocate_share)

    def _best_plan(self, epoch: Epoch) -> Plan | None:
        """Return the best plan of this epoch; in the last one, of all."""
        best = self._overall_best if epoch.last else self._epoch_best
        if isinstance(best, Timed):
            return best.plan(self.decoder, "annealing")
        return None if best.value == NEVER else plan_of(self.decoder, best, "annealing")

    @property
    def _epoch_best(self) -> Result:
        """The best state of this epoch."""
        states: list[Result] = [search.best for search in self.searches]
        if self.sequences is not None:
            states.append(self.sequences.best)
        return min(states, key=lambda state: state.value)

    @property
    def _overall_best(self) -> Result:
        """The best state that any search found."""
        return min([self._epoch_best, *self._ends], key=lambda state: state.value)

    @property
    def best(self) -> State:
        """The best state, for a list scheduler."""
        return self._to_state(self._overall_best)

    def _to_state(self, result: Result) -> State:
        """Return a result as a state, in which what starts first is the most urgent."""
        if isinstance(result, State):
            return result
        starts = result.start[: self.decoder.size].astype(np.float64)
        return State(result.site, result.option, _spread(starts), result.value)

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
        sequences: SequenceRound | None,
    ) -> None:
        results: SimpleQueue[Result | BaseException] = SimpleQueue()
        threads = [
            Thread(
                target=_run_annealing, args=(search, begin, clock, settings, results), daemon=True
            )
            for search, begin in zip(self.searches, begins, strict=True)
        ]
        if sequences is not None:
            args = sequences, clock, results
            threads[-1] = Thread(target=_run_sequences, args=args, daemon=True)
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
        state: Result | None,
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

    def _report(self, state: Result, on_better: Callable[[Plan], object]) -> None:
        if isinstance(state, State):
            plan = plan_of(self.decoder, state, "annealing")
        else:
            plan = state.plan(self.decoder, "annealing")
        if plan is not None:
            on_better(plan)

    @property
    def tried(self) -> int:
        """Moves of all searches."""
        sequences = 0 if self.sequences is None else self.sequences.tried
        return sequences + sum(search.tried for search in self.searches)

    @property
    def scheduled(self) -> int:
        """Schedules of all searches: moves that cannot change the schedule do not count."""
        return self.tried - sum(search.spared for search in self.searches)


def _run_annealing(
    search: Annealing,
    begin: State,
    clock: Clock,
    settings: AnnealingRound,
    results: SimpleQueue[Result | BaseException],
) -> None:
    """Run a round of annealing, in a thread of its own."""
    try:
        if search.begin(begin, soft=settings.soft):
            hottest = HOTTEST * settings.temperature
            search.run(clock.of(search), hottest, COLDEST, results.put, clock.most)
    except BaseException as error:  # raised again in the thread that waits
        results.put(error)


def _run_sequences(
    settings: SequenceRound, clock: Clock, results: SimpleQueue[Result | BaseException]
) -> None:
    """Run a round of the search over sequences, in a thread of its own."""
    try:
        search = settings.search
        search.run(
            clock.of(search),
            settings.temperature,
            SEQUENCE_COLDEST,
            results.put,
            clock.most,
            relocate_share=settings.relocate_share,
        )
    except BaseException as error:  # raised again in the thread that waits
        results.put(error)


def _best_of(results: SimpleQueue[Result | BaseException]) -> Result | None:
    """Return the best state in a queue; raise an error that is in it."""
    best: Result | None = None
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
