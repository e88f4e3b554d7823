"""Several searches at once, each in a thread, in rounds that begin where the best ones ended.

Where there is time, all of that is done several times from the start on: see :mod:`.rounds`.
The compiled loops release the interpreter, so threads share the cores.
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
    first_heat,
)
from .sequences import COLDEST as ORDER_COLDEST
from .sequences import ELSEWHERE, Sequences, Timed
from .sequences import HOTTEST as ORDER_HOTTEST
from .states import State

RESTART_GAP = 0.01
"""A search goes on from its own best state while that is not this much worse than the best."""

REHEAT = 3.0
"""Factor by which rounds of a search over sequences begin hotter where there are several epochs:
a settled plan is separated from better ones by worse plans only."""

POLL_S = 0.2
"""Seconds between two reads of the results of the threads."""

REPORT_INTERVAL_FACTOR = 10
"""After a report, no other follows for this multiple of its time: checks take a thread's core."""

RANK_GAP = 1024
"""Distance of ranks: room for further ones between two."""

Result = State | Timed
"""What a search reports."""


class Order(NamedTuple):
    """A round of a search over sequences: its first heat, the part of moves that place units."""

    search: Sequences
    hot: float
    elsewhere: float


class ParallelAnnealing:
    """Searches on one problem.

    Parameters
    ----------
    problem
        A problem whose plans have a schedule.
    seed
        Of the random choices.
    threads
        How many searches run at once.
    orders
        Whether one of them searches over sequences at times.
    """

    def __init__(
        self, problem: PlanningProblem, seed: int = 0, threads: int = 1, *, orders: bool = True
    ) -> None:
        self.problem, self.seed = problem, seed
        self.orders = orders and problem.objective is Objective.MAKESPAN
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
        """Begin from constructions, of a variant with more memory if one is given.

        Parameters
        ----------
        budget
            Nothing further is scheduled when it is over.
        roomy
            The variant.
        on_better
            Called with the plan of each that is better than those before, if not too soon after
            the last one, and of the best; not to be given with a variant.
        most
            Schedules in all.
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
        """Begin from a plan: what starts first is the most urgent."""
        site, option = self.decoder.place({run.operator: run.placement for run in plan.runs})
        names = [operator.name for operator in self.decoder.compiled.operators]
        starts = np.array([float(plan.run(name).start_ticks or 0) for name in names])
        self._given.add(self.begin_at(State(site, option, _spread(starts), 0)))

    def begin_at(self, state: State) -> int:
        """Begin from a state as well, if it has a schedule; return its value here."""
        search = self.searches[0]
        if not search.begin(state):
            return NEVER
        self.starts.append(state._replace(value=search.value))
        self.starts.sort(key=lambda start: start.value)
        return search.value

    def begin_later(self, state: State) -> None:
        """Begin from a state when half of the rounds are over, if it is the best one then.

        Before, what is ahead would draw all searches to where it stands.
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
        """Have what a search needs compiled or read from disk, in this thread."""
        self.searches[0].begin(self.starts[0])
        self.searches[0].load()

    def stop(self) -> None:
        """End the search that goes on in another thread, soon, and any that would follow."""
        self._stop.set()

    # -- rounds ------------------------------------------------------------------------------------

    def run(
        self,
        budget: Budget,
        moves: int | None = None,
        on_better: Callable[[Plan], object] = lambda _plan: None,
    ) -> None:
        """Search until the budget ends or, repeatably, for ``moves`` of each search.

        ``on_better`` is called in this thread with the plan of a better state, soon after it was
        found unless that takes long, and of the last one also when the search is interrupted.
        """
        if not self.starts:
            return
        self._report(self.starts[0], on_better)
        self.load()
        wanted = self._coolings(budget, moves)
        hottest = min(1.0, max(COOLEST, wanted))
        for epoch in epochs_for(wanted):
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
        spans, in_vain = [epoch.span(number) for number in range(epoch.rounds)], 0
        if epoch.first and (rival := self._alternative_start) is not None:
            since, until = spans[0]
            half = (since + until) / 2
            clock = Clock(budget, (since, half), moves, self._stop)
            self._round([rival], clock, (hottest, False), on_better, None)
            spans[0] = half, until
        for number, span in enumerate(spans):
            clock = Clock(budget, span, moves, self._stop)
            known = min(self._epoch_best.value, begins[0].value)
            how = first_heat(epoch.rounds - 1 - number, in_vain) * hottest, number % 2 == 1
            self._round(begins, clock, how, on_better, self._orders(epoch, number, how[0]))
            if self._stop.is_set():
                return
            best = self._to_state(self._epoch_best)
            in_vain = 0 if best.value < known else in_vain + 1
            if best.value == NEVER:
                continue
            begins = [
                own if (own := search.best).value <= best.value * (1 + RESTART_GAP) else best
                for search in self.searches
            ]
            if epoch.last and number + 1 == epoch.rounds // 2 and self._later is not None:
                begins[0] = min(begins[0], self._later, key=lambda state: state.value)

    def _initial_states(self, epoch: Epoch) -> list[State]:
        """Where the searches begin an epoch; what they found before is put aside."""
        self._ends.append(self._epoch_best)
        self._ends.sort(key=lambda end: end.value)
        del self._ends[max(1, len(self.searches)) :]
        for search in self.searches:
            search.forget()
        if self.sequences is not None:
            self.sequences.forget()
        choices = self.starts
        if epoch.last and not epoch.first:
            far = self._ends[0].value * (1 + RESTART_GAP)
            choices = [self._to_state(end) for end in self._ends if end.value <= far]
        return [choices[n % len(choices)] for n in range(len(self.searches))]

    @property
    def _alternative_start(self) -> State | None:
        """Return the start that a single search tries first, in half of the first round.

        A plan made for less memory may be a local optimum that a search does not leave. Several
        searches begin from several starts anyway.
        """
        first = self.starts[0].value
        if len(self.searches) > 1 or first not in self._given:
            return None
        return next((one for one in self.starts if one.value > first), None)

    def _orders(self, epoch: Epoch, number: int, heat: float) -> Order | None:
        """The search over sequences, at the best plan; ``None`` in rounds that go without.

        It has the later rounds of one search, or every other of these where there is one thread.
        Where there are several epochs, units stay where they are in the last of them and every
        other one before. Not where memory decides which orders are allowed.
        """
        after, every = epoch.rounds - 1 - number, 1 if len(self.searches) > 1 else 2
        if not self.orders or number < epoch.rounds // 2 or after % every:
            return None
        if self.sequences is None:
            self.sequences = Sequences(self.problem, self.seed)
        plan = self._best_plan(epoch)
        if plan is None or not self.sequences.begin(plan):
            return None
        self.sequences.load()
        if epoch.alone:
            return Order(self.sequences, ORDER_HOTTEST * heat, ELSEWHERE)
        elsewhere = ELSEWHERE if after // every % 2 else 0.0
        return Order(self.sequences, ORDER_HOTTEST * REHEAT, elsewhere)

    def _best_plan(self, epoch: Epoch) -> Plan | None:
        """The best plan of this epoch; in the last one, of all."""
        best = self._overall_best if epoch.last else self._epoch_best
        if isinstance(best, Timed):
            return best.plan(self.decoder, "annealing")
        return None if best.value == NEVER else plan_of(self.decoder, best, "annealing")

    @property
    def _epoch_best(self) -> Result:
        """The best state of this epoch."""
        found: list[Result] = [search.best for search in self.searches]
        if self.sequences is not None:
            found.append(self.sequences.best)
        return min(found, key=lambda state: state.value)

    @property
    def _overall_best(self) -> Result:
        """The best state that any search found."""
        return min([self._epoch_best, *self._ends], key=lambda state: state.value)

    @property
    def best(self) -> State:
        """The same for list schedules: what starts first is the most urgent."""
        return self._to_state(self._overall_best)

    def _to_state(self, found: Result) -> State:
        if isinstance(found, State):
            return found
        starts = found.start[: self.decoder.size].astype(np.float64)
        return State(found.site, found.option, _spread(starts), found.value)

    @property
    def round_s(self) -> float:
        """Seconds of one round."""
        return ROUND_S_EACH * self.decoder.size

    def _coolings(self, budget: Budget, moves: int | None) -> float:
        """Return the number of coolings that fit into the time."""
        if moves is None:
            return budget.limit_s / self.round_s
        return moves / (ROUND_MOVES_EACH * self.decoder.size)

    def _round(
        self,
        begins: Sequence[State],
        clock: Clock,
        how: tuple[float, bool],
        on_better: Callable[[Plan], object],
        orders: Order | None,
    ) -> None:
        found: SimpleQueue[Result | BaseException] = SimpleQueue()
        threads = [
            Thread(target=_run_annealing, args=(search, begin, clock, how, found), daemon=True)
            for search, begin in zip(self.searches, begins, strict=True)
        ]
        if orders is not None:
            args = orders, clock, found
            threads[-1] = Thread(target=_run_sequences, args=args, daemon=True)
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(POLL_S)
                for thread in threads[1:]:
                    thread.join(0.0 if threads[0].is_alive() else POLL_S)
                self._collect(_best_of(found), on_better)
        except BaseException:
            self._stop.set()
            raise
        finally:
            for thread in threads:
                thread.join()
            self._collect(_best_of(found), on_better, last=True)

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
        """Moves in all."""
        orders = 0 if self.sequences is None else self.sequences.tried
        return orders + sum(search.tried for search in self.searches)

    @property
    def scheduled(self) -> int:
        """Schedules in all: moves but for those that surely change none."""
        return self.tried - sum(search.spared for search in self.searches)


def _run_annealing(
    search: Annealing,
    begin: State,
    clock: Clock,
    how: tuple[float, bool],
    found: SimpleQueue[Result | BaseException],
) -> None:
    """A round of one search, in its thread."""
    try:
        heat, soft = how
        if search.begin(begin, soft=soft):
            search.run(clock.of(search), HOTTEST * heat, COLDEST, found.put, clock.most)
    except BaseException as error:  # handed to the thread that waits
        found.put(error)


def _run_sequences(order: Order, clock: Clock, found: SimpleQueue[Result | BaseException]) -> None:
    """A round of the search over sequences, in its thread."""
    try:
        search, hot, elsewhere = order
        done = clock.of(search)
        search.run(done, hot, ORDER_COLDEST, found.put, clock.most, elsewhere=elsewhere)
    except BaseException as error:  # handed to the thread that waits
        found.put(error)


def _best_of(found: SimpleQueue[Result | BaseException]) -> Result | None:
    """Return the best state in a queue; raise an error that is in it."""
    best: Result | None = None
    while True:
        try:
            entry = found.get_nowait()
        except Empty:
            return best
        if isinstance(entry, BaseException):
            raise entry
        if best is None or entry.value < best.value:
            best = entry


def _state(decoder: Decoder, start: Start) -> State:
    """The state of a construction."""
    site, option, rank = placed(decoder, start)
    return State(site, option, rank * RANK_GAP, start.value)


def _spread(weights: NDArray[np.float64]) -> Ints:
    """Ranks in the order of weights, with room between them; equals stay equal."""
    return np.unique(weights, return_inverse=True)[1].astype(np.int64) * RANK_GAP
