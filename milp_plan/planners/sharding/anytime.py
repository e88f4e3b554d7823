"""Anytime planner of memory-limited sharding problems: plans and bounds until the time is up.

Every worker goes through three phases over and over again: prices and messages are improved (the
bound), labels are decoded from them at perturbed prices and polished by tree moves (restarts), and
the best choice is worked on by tree moves with noise (annealing). Where reductions leave little,
the first worker turns to branch and bound as soon as the bound has settled, and finds the best plan
of all, or raises the bound until the time is up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from milp_plan.bounds.messages import Dual
from milp_plan.bounds.sharding import BOUND
from milp_plan.bounds.sharding_choices import EVERY_CHOICE, Choice, best_choice
from milp_plan.core.budget import now
from milp_plan.core.gap import within
from milp_plan.core.labelling import Integers, Labelling

from .branching import NAME as BRANCHES
from .branching import Tree
from .decoding import decode
from .graph import Floats, Graph, graph_of
from .trees import tree_search

CALL_S = 0.2
"""Length of one compiled call: workers look at the clock and at each other in between."""
_ASCENT = 0.35
_RESTARTS = 0.6
"""Shares of the time after which the first and the second phase end at the latest."""
_SETTLED = 0.05
"""Share of the time after which branch and bound begins at the latest."""
_SMALL, _NARROW = 2_000_000, 500_000
"""Entries of tables up to which branch and bound looks at the root, and goes on from there."""
_ROOT_PASSES = 20
"""Passes of an ascent at the root."""
_LOUDEST = 0.03
"""Largest noise of annealing, as a share of the cost."""
_POOL = 8


@dataclass(frozen=True)
class Sighting:
    """What is known at a moment: the best cost, the best bound and its name, when, and by what."""

    value: int | None
    bound: int | None
    elapsed_s: float
    phase: str
    bound_by: str = BOUND


class Board:
    """What the workers share; all of its methods may be called from any thread.

    Parameters
    ----------
    labelling
        The problem.
    time_limit_s
        Seconds from now.
    gap
        Relative gap at which to stop.
    """

    def __init__(self, labelling: Labelling, time_limit_s: float, gap: float) -> None:
        self.labelling, self.gap = labelling, gap
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
        """Seconds since the beginning."""
        return now() - self.began

    @property
    def over(self) -> bool:
        """Whether to stop: time up, gap closed, or told so."""
        return self.stopped.is_set() or self.elapsed_s >= self.time_limit_s

    @property
    def proved(self) -> bool:
        """Whether the gap asked for is reached."""
        with self._lock:
            return within(self.value, self.bound, self.gap)

    def offer(self, labels: Integers) -> int | None:
        """Take a choice if it is a plan and better; return its exact cost if it is a plan."""
        value = self.labelling.value(labels)
        if value is None or (self.labelling.load(labels) > self.labelling.capacity).any():
            return None
        with self._lock:
            if self.value is None or value < self.value:
                self.value, self.labels = value, labels.copy()
                self._close()
        return value

    def prove(self, bound: int, by: str = BOUND) -> None:
        """Take a bound if it is better."""
        with self._lock:
            if self.bound is None or bound > self.bound:
                self.bound, self.bound_by = bound, by
                self._close()

    def settle(self, choice: Choice, by: str) -> None:
        """Take the best choice of all, or the proof that none is a plan."""
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
        """Return what is known now."""
        with self._lock:
            return Sighting(self.value, self.bound, self.elapsed_s, self.phase, self.bound_by)

    def _close(self) -> None:
        """Stop once the gap is closed; the lock is held."""
        if within(self.value, self.bound, self.gap):
            self.stopped.set()


class Worker:
    """One thread's search.

    Parameters
    ----------
    board
        What it shares with others.
    graph
        The problem's arrays.
    number, seed
        Which worker this is, and where its random numbers start.
    alone
        Whether there is no other.
    """

    def __init__(self, board: Board, graph: Graph, number: int, seed: int, alone: bool) -> None:
        self.board, self.graph, self.number, self.alone = board, graph, number, alone
        self.random = np.random.default_rng([seed, number])
        self.dual = Dual(board.labelling)
        self.moves = 64
        self.push = 1.0
        self.pool: list[tuple[int, Integers]] = []

    def run(self) -> None:
        """Search until the board says stop; an error ends everyone."""
        try:
            self._search()
        except BaseException as error:
            self.board.failure = error
            self.board.stopped.set()

    def _search(self) -> None:
        board = self.board
        small = self.number == 0 and len(board.labelling.table) <= _SMALL
        self._ascend(_SETTLED if small else _ASCENT if self.number == 0 else 0.6 * _ASCENT)
        if small:
            self._branch()
        anchor = self.dual.forward.copy(), self.dual.backward.copy()
        while not board.over and board.elapsed_s < _RESTARTS * board.time_limit_s:
            self._restart(0.3)
            if self.random.random() < 0.2:
                self.dual.forward[:], self.dual.backward[:] = anchor
        board.phase = "annealing"
        turn = 0
        while not board.over:
            turn += 1
            self._anneal()
            if turn % 3 == 0 and not board.over:
                self.dual.forward[:], self.dual.backward[:] = anchor
                self._restart(0.5)

    def _target(self) -> float:
        """Cost of a plan, or while there is none a guess above the bound."""
        board = self.board
        if board.value is not None:
            return float(board.value)
        base = self.dual.bound + board.labelling.constant
        return base + 0.3 * abs(base) + 1.0

    def _ascend(self, share: float) -> None:
        """Improve the bound while that still helps, with a decoded choice after every call."""
        board, dual = self.board, self.dual
        dual.settle(20)
        passes, calls, last = 4, 0, -np.inf
        while not board.over and board.elapsed_s < share * board.time_limit_s:
            began = now()
            bound = dual.step(passes, self._target())
            passes = _adapted(passes, now() - began)
            calls += 1
            if (calls > 2 and calls & (calls - 1) == 0) or calls % 16 == 0:
                self._certify()
                self._polish(self._decoded(dual.prices, 1), dual.prices, 6)
            if calls % 16 == 0:
                if bound - last <= 1e-5 * abs(bound):
                    break
                last = bound
        dual.settle(10)
        self._certify()
        if board.value is None:
            self._polish(self._decoded(dual.prices, 1), dual.prices, 6)

    def _branch(self) -> None:
        """Branch and bound: to the end, or for a part of the time where nobody else searches."""
        board = self.board
        share = _RESTARTS if self.alone else 1.0

        def over() -> bool:
            return board.over or board.elapsed_s >= share * board.time_limit_s

        bound = self.dual.certified()
        tree = Tree(board.labelling, lambda: board.value, board.offer, bound, over)
        root = tree.root(_ROOT_PASSES)
        if root is not None and len(root.labelling.table) > _NARROW:
            self._prove(tree)
            return
        while tree and not over():
            board.phase = BRANCHES
            tree.step()
            self._prove(tree)
        if not tree and not board.stopped.is_set():
            board.settle(Choice(board.best()), BRANCHES)

    def _prove(self, tree: Tree) -> None:
        if tree.bound is not None:
            self.board.prove(tree.bound, BRANCHES)

    def _certify(self) -> None:
        if self.number == 0:
            self.board.prove(self.dual.certified())

    def _decoded(self, prices: Floats, passes: int) -> Integers:
        """Return the labels that the messages speak for, after some passes at these prices."""
        dual, graph = self.dual, self.graph
        costs = dual.priced(prices)
        forward, backward = dual.forward.copy(), dual.backward.copy()
        for _ in range(passes):
            dual.send(costs)
        labels = np.zeros(len(dual.labelling), dtype=np.int64)
        decode(
            graph,
            costs,
            dual.backward_offsets,
            dual.backward,
            labels,
        )
        if passes <= 1:
            dual.forward[:], dual.backward[:] = forward, backward
        return labels

    def _restart(self, spread: float) -> None:
        self.board.phase = "restarts"
        rows = len(self.dual.prices)
        shift = spread * self.random.standard_normal()
        prices = self.dual.prices * np.exp(shift + spread * self.random.standard_normal(rows))
        self._polish(self._decoded(prices, int(self.random.integers(2, 6))), prices)

    def _unit(self) -> float:
        """A price that matters: a hundredth of the cost for all of the memory.

        Many times that while there is no plan: then what a plan costs is not known yet.
        """
        room = float(self.graph.capacity.max(initial=1.0))
        push = self.push if self.board.value is None else 1.0
        return 0.01 * push * abs(self._target()) / max(room, 1.0)

    def _polish(self, labels: Integers, prices: Floats, calls: int = 30) -> None:
        """Tree moves until two calls bring nothing, or there were that many."""
        best, idle = labels.copy(), 0
        last = (np.inf, np.inf)
        board, first = self.board, self.board.value is None
        # Without any plan one call is made even when the time is up: a late plan is better.
        while (first and not board.stopped.is_set()) or (not board.over and idle < 2 and calls):
            calls, first = max(0, calls - 1), False
            cost, excess = self._moves(labels, best, prices, 0.0, 0.0)
            idle = idle + 1 if (excess, cost) >= last else 0
            last = min(last, (excess, cost))
        value = board.offer(best)
        if value is not None:
            self.pool.append((value, best))
            self.pool.sort(key=lambda entry: entry[0])
            del self.pool[_POOL:]

    def _moves(
        self, labels: Integers, best: Integers, prices: Floats, slack: float, noise: float
    ) -> tuple[float, float]:
        began = now()
        cost, excess, _, _ = tree_search(
            self.graph,
            labels,
            best,
            prices,
            self.moves,
            len(labels),
            slack,
            noise,
            self._unit(),
            int(self.random.integers(2**31)),
        )
        self.moves = _adapted(self.moves, now() - began)
        if excess > 0.0:
            self.push = min(2.0 * self.push, 1e12)
        return cost, excess

    def _anneal(self) -> None:
        """Work on a good choice with noise that fades, for a share of the time that is left."""
        board = self.board
        start = board.best()
        if start is None:
            self._restart(1.0)
            return
        if self.pool and self.random.random() < 0.3:
            start = self.pool[int(self.random.integers(len(self.pool)))][1].copy()
        value = float(abs(self._target()))
        loud = _LOUDEST * value * 10.0 ** (-3.0 * self.random.random())
        labels, best = start.copy(), start.copy()
        left = board.time_limit_s - board.elapsed_s
        length = min(left, max(1.0, 0.15 * left))
        began = board.elapsed_s
        while not board.over and board.elapsed_s < began + length:
            fade = max(0.0, 1.0 - 1.1 * (board.elapsed_s - began) / length)
            self._moves(labels, best, self.dual.prices, loud * fade, 0.3 * loud * fade)
            board.offer(best)
        self._polish(best, self.dual.prices)


def _adapted(amount: int, took_s: float) -> int:
    """Return how much to do in the next call so that it takes about ``CALL_S``."""
    return max(1, min(4 * amount, int(amount * CALL_S / max(took_s, 1e-4))))


def search(
    labelling: Labelling,
    time_limit_s: float,
    *,
    gap: float = 1e-6,
    workers: int = 2,
    seed: int = 0,
    on_sighting: Callable[[Sighting], None] | None = None,
) -> Board:
    """Plan a reduced problem.

    Parameters
    ----------
    labelling
        The problem.
    time_limit_s
        Seconds.
    gap
        Relative gap at which to stop.
    workers
        Threads.
    seed
        Of the random numbers; results depend on the clock as well.
    on_sighting
        Called about every half second, and whenever there is news.

    Returns
    -------
    Board
        Best labels (exact value) and exact bound; labels are ``None`` where no plan was found,
        ``infeasible`` says whether that is proved. Small problems are settled by looking at every
        choice.

    Notes
    -----
    Ctrl-C stops the workers and is kept as ``interrupted``.
    """
    board = Board(labelling, time_limit_s, gap)
    choice = best_choice(labelling)
    if choice is not None:
        board.settle(choice, EVERY_CHOICE)
        return board
    graph = graph_of(labelling)
    threads = [
        threading.Thread(target=Worker(board, graph, number, seed, workers == 1).run, daemon=True)
        for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        _watch(board, threads, on_sighting)
    except KeyboardInterrupt:
        board.interrupted = True
    finally:
        board.stopped.set()
        for thread in threads:
            thread.join()
    if board.failure is not None:
        raise board.failure
    return board


def _watch(
    board: Board,
    threads: list[threading.Thread],
    on_sighting: Callable[[Sighting], None] | None,
) -> None:
    """Report until everyone is done; Ctrl-C ends the search and keeps what there is."""
    said: tuple[int | None, int | None] | None = None
    spoke = 0.0
    while any(thread.is_alive() for thread in threads):
        board.stopped.wait(0.05)
        now = board.sighting()
        news = (now.value, now.bound)
        if on_sighting is not None and (news != said or now.elapsed_s - spoke > 0.5):
            on_sighting(now)
            said, spoke = news, now.elapsed_s
        if board.stopped.is_set():
            return
