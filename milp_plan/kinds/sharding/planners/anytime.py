"""Anytime planner of memory-limited sharding problems: plans and bounds until the time is up.

Every worker repeats three phases: prices and messages are improved (the
bound), labels are decoded from them at perturbed prices and polished by tree moves (restarts), and
the best choice is improved by tree moves with noise (annealing). Once the bound has converged, the
first worker removes labels that no better plan takes and reduces the rest again; all workers
continue on it. Where the rest is small, it switches to branch and bound, and finds the best plan,
or raises the bound until the time is up; elsewhere, where there are three workers, it branches over
shared operators in place of restarts (:mod:`.probing`).

**Proof of a narrowed bound.** Labels are removed only if no plan below a known cost takes them
(:mod:`.certificates`): plans with them cost at least that, so the lesser of it
and of the bound of the rest holds for every plan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from milp_plan.core.budget import now

from ..bounds import BOUND
from ..choice_bounds import EVERY_CHOICE, Choice, best_choice
from ..coarsen import ShardingReduction
from ..coarsen.masks import possible_labels
from ..coarsen.projection import projected
from ..coarsen.rebuild import without_labels
from ..coarsen.stage import reduced
from ..labelling import Integers, Labelling
from ..messages import Dual
from .board import Board, Narrowed, Sighting
from .branching import NAME as BRANCHES
from .branching import Tree
from .decoding import decode
from .graph import Floats, Graph, graph_of
from .probing import WORTH, ProbingTree
from .trees import tree_search

CALL_S = 0.2
"""Duration of one compiled call: workers check the clock and the board in between, seconds."""
_ASCENT = 0.35
_RESTARTS = 0.6
"""Share of the time after which the second phase ends at the latest."""
_SETTLED = 0.05
"""Share of the time after which branch and bound begins at the latest."""
_FEW, _NARROW = 1_000, 500_000
"""Largest numbers of operators, and entries of tables, for which branch and bound takes over."""
_SLOW = 0.005
"""Share of the gap that an ascent must close in 16 calls to go on, where branching follows."""
_CROWD = 3
"""Fewest workers of which one branches on large problems: of two, both search for plans."""
_WORTH = 0.7
"""Largest share of labels that may stay for all workers to continue on the reduced problem."""
_REDUCE_S = 30.0
"""Time limit of these reductions, seconds."""
_ROOT_PASSES = 20
"""Passes of an ascent at the root."""
_LOUDEST = 0.03
"""Largest noise of annealing, as a share of the cost."""
_POOL = 8


class Worker:
    """One thread's search.

    Parameters
    ----------
    board
        State that all workers share.
    graph
        The problem's arrays.
    number, seed
        Number of this worker, and seed of its random numbers.
    workers
        Number of workers.
    """

    dual: Dual
    anchor: tuple[Floats, Floats]

    def __init__(self, board: Board, graph: Graph, number: int, seed: int, workers: int) -> None:
        self.board, self.graph, self.number = board, graph, number
        self.alone, self.probes = workers == 1, number == 0 and workers >= _CROWD
        self.random = np.random.default_rng([seed, number])
        self.moves = 64
        self.push = 1.0
        self._begin(board.narrowed)

    @property
    def labelling(self) -> Labelling:
        """The problem that is searched."""
        return self.narrowed.reduction.labelling

    @property
    def _few(self) -> bool:
        """Whether nodes of a branch and bound take little time here."""
        return len(self.labelling) <= _FEW and len(self.labelling.table) <= _NARROW

    def _begin(self, narrowed: Narrowed) -> None:
        """Continue the search on a narrowed problem."""
        self.narrowed = narrowed
        self.dual = Dual(self.labelling)
        self.pool: list[tuple[int, Integers]] = []
        self._hold()

    def _hold(self) -> None:
        """Save the messages."""
        self.anchor = self.dual.forward.copy(), self.dual.backward.copy()

    def _return(self) -> None:
        self.dual.forward[:], self.dual.backward[:] = self.anchor

    def _follow(self) -> None:
        """Switch to the latest narrowed problem."""
        if self.narrowed is not self.board.narrowed:
            self._begin(self.board.narrowed)
            self.graph = graph_of(self.labelling)
            self._ascend(1.0)
            self._hold()

    def _offer(self, labels: Integers) -> int | None:
        return self.board.offer(self.narrowed.reduction.lift(labels))

    def _best(self) -> Integers | None:
        """Return the best choice in terms of the current problem."""
        best = self.board.best()
        return None if best is None else projected(self.narrowed.reduction, best)

    def _prove(self, bound: int | None, by: str = BOUND) -> None:
        target = self.narrowed.target
        if bound is not None:
            self.board.prove(bound if target is None else min(bound, target), by)

    def run(self) -> None:
        """Search until the board says stop; an error ends all workers."""
        try:
            self._search()
        except BaseException as error:
            self.board.failure = error
            self.board.stopped.set()

    def _search(self) -> None:
        board = self.board
        if self.number:
            self._ascend(0.6 * _ASCENT)
        else:
            self._ascend(_SETTLED if self._few else _ASCENT)
            while not board.over and not self._few and self._narrow():
                self._ascend(_ASCENT)
            if self._few:
                self._branch()
            elif self.probes:
                self._probe()
        self._hold()
        while not board.over and board.elapsed_s < _RESTARTS * board.time_limit_s:
            self._follow()
            self._restart(0.3)
            if self.random.random() < 0.2:
                self._return()
        board.phase = "annealing"
        turn = 0
        while not board.over:
            turn += 1
            self._follow()
            self._anneal()
            if turn % 3 == 0 and not board.over:
                self._return()
                self._restart(0.5)

    def _target(self) -> float:
        """Return the cost of a plan, or an estimate above the bound while there is none."""
        board = self.board
        if board.value is not None:
            return float(board.value)
        base = self.dual.bound + self.labelling.constant
        return base + 0.3 * abs(base) + 1.0

    def _ascend(self, share: float) -> None:
        """Improve the bound while that helps, with a decoded choice after every call."""
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
                gap = 0.0
                if self.probes and board.value is not None:
                    gap = board.value - bound
                if bound - last <= max(1e-5 * abs(bound), _SLOW * gap):
                    break
                last = bound
        dual.settle(10)
        self._certify()
        if board.value is None:
            self._polish(self._decoded(dual.prices, 1), dual.prices, 6)

    def _branch(self) -> None:
        """Run branch and bound: to the end, or for a part of the time with a single worker."""
        board = self.board
        share = _RESTARTS if self.alone else 1.0

        def over() -> bool:
            return board.over or board.elapsed_s >= share * board.time_limit_s

        tree = Tree(self.labelling, lambda: board.value, self._offer, self.dual.certified(), over)
        tree.root(_ROOT_PASSES)
        while tree and not over():
            board.phase = BRANCHES
            tree.step()
            self._prove(tree.bound, BRANCHES)
        if not tree and not board.stopped.is_set():
            board.settle(Choice(board.best()), BRANCHES)

    def _probe(self) -> None:
        """Branch over shared operators in place of restarts, where the first split pays."""
        board = self.board

        def over() -> bool:
            return board.over or board.elapsed_s >= _RESTARTS * board.time_limit_s

        if board.value is None or over():
            return
        tree = ProbingTree(self.dual, lambda: board.value, self._offer, over)
        while tree and not over() and (tree.worth is None or tree.worth >= WORTH):
            board.phase = BRANCHES
            tree.step()
            self._prove(tree.bound, BRANCHES)
        if not tree and not board.stopped.is_set():
            board.settle(Choice(board.best()), BRANCHES)

    def _narrow(self) -> bool:
        """Remove labels that no better plan takes, and reduce; return whether that paid."""
        board, before = self.board, self.labelling
        target = board.value
        if target is None:
            return False
        alive = self.dual.certificate().possible(target) & possible_labels(before)
        if alive.sum() > _WORTH * len(alive):
            return False
        if not np.logical_or.reduceat(alive, before.offsets[:-1]).all():
            board.settle(Choice(board.best()), BRANCHES)
            return False
        smaller, step = without_labels(before, alive)
        left = board.time_limit_s - board.elapsed_s
        reduction = reduced(smaller, min(_REDUCE_S, 0.2 * left))
        steps = (*self.narrowed.reduction.steps, step, *reduction.steps)
        whole = ShardingReduction(reduction.labelling, steps, reduction.infeasible_reason)
        if reduction.infeasible_reason is None and len(reduction.labelling):
            board.narrowed = Narrowed(whole, target)
            self._begin(board.narrowed)
            self.graph = graph_of(self.labelling)
            return True
        if reduction.infeasible_reason is None:
            board.offer(whole.lift(np.zeros(0, dtype=np.int64)))
        board.settle(Choice(board.best()), BRANCHES)
        return False

    def _certify(self) -> None:
        if self.number == 0:
            self._prove(self.dual.certified())

    def _decoded(self, prices: Floats, passes: int) -> Integers:
        """Return the labels that the messages favour, after some passes at these prices."""
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
        """Return a significant price: a hundredth of the cost for all of the memory.

        It is larger while there is no plan: then the cost of a plan is not known yet.
        """
        room = float(self.graph.capacity.max(initial=1.0))
        push = self.push if self.board.value is None else 1.0
        return 0.01 * push * abs(self._target()) / max(room, 1.0)

    def _polish(self, labels: Integers, prices: Floats, calls: int = 30) -> None:
        """Run tree moves until two calls bring no improvement, or up to ``calls`` calls."""
        best, idle = labels.copy(), 0
        last = (np.inf, np.inf)
        board, first = self.board, self.board.value is None
        # Without any plan one call is made even when the time is up: a late plan is better.
        while (first and not board.stopped.is_set()) or (not board.over and idle < 2 and calls):
            calls, first = max(0, calls - 1), False
            cost, excess = self._moves(labels, best, prices, 0.0, 0.0)
            idle = idle + 1 if (excess, cost) >= last else 0
            last = min(last, (excess, cost))
        value = self._offer(best)
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
        """Improve a good choice with decreasing noise, for a share of the time left."""
        board = self.board
        start = self._best()
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
            self._offer(best)
        self._polish(best, self.dual.prices)


def _adapted(amount: int, took_s: float) -> int:
    """Return the amount of work for the next call so that it takes about ``CALL_S``."""
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
        Time limit.
    gap
        Relative gap at which to stop.
    workers
        Number of threads.
    seed
        Seed of the random numbers; results depend on the clock as well.
    on_sighting
        Called about every half second, and at every change.

    Returns
    -------
    Board
        Best labels (exact value) and exact bound; labels are ``None`` where there is no plan,
        ``infeasible`` says whether that is proved. Small problems are enumerated.

    Notes
    -----
    Ctrl-C stops the workers and sets ``interrupted``.
    """
    board = Board(labelling, time_limit_s, gap)
    choice = best_choice(labelling)
    if choice is not None:
        board.settle(choice, EVERY_CHOICE)
        return board
    graph = graph_of(labelling)
    threads = [
        threading.Thread(target=Worker(board, graph, number, seed, workers).run, daemon=True)
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
    """Report until all workers are done; Ctrl-C ends the search and preserves its results."""
    reported: tuple[int | None, int | None] | None = None
    spoke = 0.0
    while any(thread.is_alive() for thread in threads):
        board.stopped.wait(0.05)
        now = board.sighting()
        news = (now.value, now.bound)
        if on_sighting is not None and (news != reported or now.elapsed_s - spoke > 0.5):
            on_sighting(now)
            reported, spoke = news, now.elapsed_s
        if board.stopped.is_set():
            return
