"""Compiled loops, run once on small problems: they are kept on disk for later runs.

All are run but those of the Metropolis search, a baseline of one study. A loop is compiled when it
is first called, which takes seconds that count against the time limit of that run.
:func:`compile_loops` spends them in advance. ``python -m milp_plan.run.loops PID`` compiles the
part that its standard input names, and ends with the process of that number.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from fractions import Fraction
from functools import partial
from itertools import pairwise, repeat
from multiprocessing import get_context
from random import Random

import numpy as np

from milp_plan.core import Contiguity, SerialLaw
from milp_plan.core.budget import Budget
from milp_plan.core.process import watch
from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.hybrid import Configuration, Flow, HybridProblem, Layer, Limits
from milp_plan.models.planted_serial import PAYER, ladder
from milp_plan.serial import SerialGraph, operator_tables, read_serial

from .compiling import (
    CONTIGUOUS_PARTS,
    ENUMERATION,
    HYBRID,
    LARGEST_LOAD,
    LATENCY,
    LEARNING,
    LIST_SCHEDULES,
    MOVES,
    NEAR,
    PACKING,
    RUNS,
    SEQUENCES,
    SHARDING,
    SHARDING_SEARCH,
)

SEARCH_S = 1.0
"""Seconds of searches that only the clock ends; compiling comes on top."""

END_S = 60.0
"""Seconds of searches that end by themselves: what they compile on the way may take most of it."""


# -- small problems ------------------------------------------------------------------------------


def _serial(law: SerialLaw) -> SerialGraph:
    graph = read_serial(ladder(law))
    assert isinstance(graph, SerialGraph), graph
    return graph


def _shards(operators: int, seed: int) -> ShardingProblem:
    """A random sharding problem with memory; one operator must do as another does."""
    rng = Random(seed)
    counts = [3, 3, *(rng.randint(2, 5) for _ in range(operators - 2))]
    edges: dict[tuple[int, int], list[list[int | None]]] = {
        (0, 1): [[0 if s == t else None for t in range(3)] for s in range(3)]
    }
    for a in range(1, operators):
        for b in rng.sample(range(a + 1, operators), min(3, operators - a - 1)):
            edges[a, b] = [[rng.randint(0, 99) for _ in range(counts[b])] for _ in range(counts[a])]
    usages = [[(i % 4 > 0) * rng.randint(1, 9) for _ in range(n)] for i, n in enumerate(counts)]
    return sharding_problem(
        "loops",
        [[rng.randint(0, 99) for _ in range(count)] for count in counts],
        usages=usages,
        intervals=[(i // 2, i // 2 + 4) for i in range(operators)],
        edges=edges,
        limit=45,
    )


def _layers() -> HybridProblem:
    """Layers in a row, each plain or recomputed, at two tensor degrees."""
    names = [f"layer{i}" for i in range(6)]
    layers = tuple(
        Layer(
            name,
            {
                degree: tuple(
                    Configuration(
                        f"c{again}",
                        Fraction((3 + i) * (1 + again), degree),
                        Fraction(1),
                        Fraction(4 - 3 * again, degree),
                        Fraction(1),
                        bool(again),
                    )
                    for again in (0, 1)
                )
                for degree in (1, 2)
            },
        )
        for i, name in enumerate(names)
    )
    flows = tuple(Flow(a, b, Fraction(1)) for a, b in pairwise(names))
    return HybridProblem("loops", layers, flows, Limits(6, Fraction(14), Fraction(9), 4))


# -- runs ----------------------------------------------------------------------------------------


def _largest_load() -> None:
    from milp_plan.bounds.serial_catalogue import serial_bounds
    from milp_plan.bounds.serial_conflicts import conflicts
    from milp_plan.bounds.serial_load import class_bound
    from milp_plan.bounds.serial_priced import priced_bounds
    from milp_plan.planners.serial.annealing import SerialAnnealing
    from milp_plan.planners.serial.baselines import local_search
    from milp_plan.planners.serial.resplit import resplitting

    graph = _serial(SerialLaw((PAYER,)))
    search = SerialAnnealing(graph)
    search.cut_orders()
    search.step()
    pairs = resplitting(graph, Budget())
    assert search.best is not None
    assert pairs is not None
    pairs.search(search.best, 4, float("inf"))
    tuple(priced_bounds(graph, 0, max(graph.loads(search.best.tolist())), Budget(), 2))
    tuple(serial_bounds(graph, Budget(), 1))  # every class counts as slow on hosts
    conflicts(graph, class_bound(graph, Budget()).value)
    local_search(graph, 0)


def _contiguous() -> None:
    from milp_plan.planners.serial.baselines import CONTIGUOUS
    from milp_plan.planners.serial.contiguous import ContiguousSearch

    graph = _serial(SerialLaw((PAYER,), Contiguity.CHAIN))
    for planner in CONTIGUOUS.values():
        planner(graph, 0)
    search = ContiguousSearch(graph)
    search.linear()
    search.wide(1)
    search.exact()


def _latency() -> None:
    from milp_plan.bounds.serial_gates import gate_bound
    from milp_plan.planners.serial.latency import Annealing, Line, arrays, ways
    from milp_plan.serial.atoms import merge_idle

    for calls in (1, 2):
        tables = operator_tables(_serial(SerialLaw((PAYER,), calls=calls)))
        atoms = merge_idle(tables)
        gate_bound(atoms, lambda: math.inf)
        table = arrays(atoms)
        line = Line(atoms, table)
        places, _ = line.cut(line.order(1))
        Annealing(table, places, seed=0).run(1, lambda: 1.0, lambda _: None)
        found = ways(tables)
        assert found is not None
        for looks in (1_000_000, *range(1, 9)):  # to the end, and out of time
            time_left = partial(next, repeat(1.0, looks), 0.0)
            found.run(lambda: math.inf, time_left, lambda _: None, lambda *_: None)


def _sharding() -> None:
    """Reductions, and every choice of the little that they may leave."""
    from milp_plan.bounds.sharding_choices import best_choice
    from milp_plan.coarsen.sharding import reduce_sharding

    for operators in (8, 4):
        for seed in range(3):
            left = reduce_sharding(_shards(operators, seed), math.inf)
            if left.infeasible_because is None:
                best_choice(left.labelling)
                left.lift(np.zeros(len(left.labelling), dtype=np.int64))


def _sharding_search() -> None:
    """What begins after the reductions; their loops are not for this part to compile again."""
    from milp_plan.bounds.messages import Dual
    from milp_plan.coarsen.sharding.reading import labelling_of
    from milp_plan.planners.sharding.decoding import decode
    from milp_plan.planners.sharding.graph import graph_of
    from milp_plan.planners.sharding.trees import tree_search

    labelling = labelling_of(_shards(30, 0))
    dual, graph = Dual(labelling), graph_of(labelling)
    dual.settle(1)
    dual.step(1, float(labelling.cost.sum()))
    labels = np.zeros(len(labelling), dtype=np.int64)
    costs = dual.priced(dual.prices)
    decode(graph, costs, dual.backward_offsets, dual.backward, labels)
    best = labels.copy()
    tree_search(graph, labels, best, dual.prices, 1, len(labels), 0.0, 0.0, 1.0, 0)
    dual.certified()
    dual.certificate().possible(int(labelling.cost.sum()))


def _hybrid() -> None:
    from milp_plan.planners.hybrid import plan_exactly, plan_uniformly

    plan_exactly(_layers(), SEARCH_S)
    plan_uniformly(_layers())


def _packing() -> None:
    from milp_plan.core.packing import Buffer, PackingProblem
    from milp_plan.planners.packing import FITS, Packer

    rng = Random(0)
    lives = [(begin, begin + rng.randint(1, 9)) for begin in range(8)]
    buffers = [Buffer(f"b{i}", *life, rng.randint(1, 9), 2) for i, life in enumerate(lives)]
    packer = Packer(PackingProblem("loops", tuple(buffers)))
    known = min(packer.fit(name).value or 0 for name in FITS)
    tuple(packer.better_orders(Budget(SEARCH_S), 0, 0))
    tuple(packer.search(Budget(END_S), 0, 0, known))


def _jobs() -> None:
    from milp_plan.core.jobs import Job, JobsProblem, Option, Pool, Unit
    from milp_plan.planners.jobs import STARTS, Gangs, Tables

    options = (Option("loops", "gpu", 1, 3), Option("loops", "gpu", 2, 2))
    jobs = tuple(Job(f"j{i}", (Unit(options),)) for i in range(3))
    problem = JobsProblem("loops", (Pool("gpu", 2),), jobs)
    tables = Tables(problem)
    tables.plan(tables.anneal(STARTS["soonest end"](tables, 0), 2, 0), "loops")
    Gangs(problem).within(9, Budget(END_S))


def _rematerialisation() -> None:
    from milp_plan.core.rematerialisation import Computation, RematerialisationProblem
    from milp_plan.planners.rematerialisation import Annealing, greedy, keys_of

    names = [f"o{i}" for i in range(8)]
    inputs = [(), *((names[i - 1], names[7 - i]) for i in range(1, 8))]
    rows = [
        Computation(name, 1, 1, tuple(n for n in sorted(set(read)) if n < name))
        for name, read in zip(names, inputs, strict=True)
    ]
    problem = RematerialisationProblem("loops", tuple(rows))
    tight = problem.within(Fraction(4, 5), fraction=True)
    plan = greedy(tight)
    assert plan is not None
    looks = iter((True, False))
    Annealing(tight, keys_of(tight, plan)).cool(looks.__next__, lambda: None)


def _stashes() -> None:
    from milp_plan.pipeline import Case, Model, build
    from milp_plan.pipeline.stash import StashShop, read_stashes
    from milp_plan.planners import best_plan
    from milp_plan.planners.pipelines import Stashing

    model = Model.from_share((1, 1, 1))
    problem = build(Case(model, 2, 3, memory=1, lane=1, recompute=True)).problem
    shop = read_stashes(problem)
    assert isinstance(shop, StashShop)
    stashing = Stashing(shop, 0)
    for memory in (1, None):
        plan, _ = best_plan(build(Case(model, 2, 3, memory=memory)).problem)
        assert plan is not None
        stashing.add(plan, f"memory {memory}")
    stashing.run(Budget(END_S), lambda *_: None, rounds=1)


def _orders() -> None:
    from milp_plan.planners.ordering import ORDERS, Orderer, OrderGraph, read_order
    from milp_plan.zoo import TRAPS

    for problem in (trap.problem for trap in TRAPS):
        graph = read_order(problem)
        if isinstance(graph, OrderGraph):
            orderer = Orderer(graph, ORDERS["definition-order"](graph))
            tuple(orderer.search(Budget(END_S), 0))


def _near() -> None:
    from milp_plan.planners import dispatch, indexed
    from milp_plan.zoo import TRAPS

    from .near.model import Model
    from .near.scope import Scope
    from .near.tape import Tape

    problem = TRAPS[0].problem
    plan = dispatch(problem, priority=problem.graph.topological_order)
    assert plan is not None
    tape = Tape(indexed(problem), plan)
    Model(Scope(tape, range(len(tape.spots)), tape.makespan))


def _schedules() -> None:
    """Every loop of the decoder and of its search is compiled with whoever calls it."""
    from milp_plan.models.planted import planted_with_plan
    from milp_plan.planners import Crew

    problem, plan = planted_with_plan(0)
    crew = Crew(problem, orders=False)
    crew.construct(Budget(END_S))
    crew.add(plan)
    crew.run(Budget(END_S), 100)


def _moves() -> None:
    """Loops that the search calls, the last ones first: another process begins with the others."""
    from milp_plan.models.planted import planted
    from milp_plan.planners.decoder.events import run_events
    from milp_plan.planners.search.annealing import Annealing
    from milp_plan.planners.search.states import move, take_back
    from milp_plan.planners.search.urgency import rank_anew
    from milp_plan.planners.search.waits import note, same

    search = Annealing(planted(0))
    a, t, undo = search.decoder.memory.a, search.decoder.memory.t, search.undo
    move(a, t, search.units, undo, search.width)
    rank_anew(a, t, undo, search.urgency, search.width)
    same(a, t, search.waits, undo)
    note(a, t, search.waits, search.rules.holding)
    take_back(a, t, undo)
    run_events(a, t, (False, False, False), 0)


def _sequences() -> None:
    from milp_plan.models.planted import planted_with_plan
    from milp_plan.planners.search import Sequences

    problem, plan = planted_with_plan(0)
    roomy = problem.cluster.with_memory(dict.fromkeys(problem.cluster.device_names))
    orders = Sequences(problem.variant(cluster=roomy))
    assert orders.begin(plan)
    orders.load()


def _enumeration() -> None:
    from milp_plan.models.planted import planted
    from milp_plan.planners.enumeration import Enumeration

    every = Enumeration(planted(0))
    tuple(every.plans(Budget()))
    assert every.least is not None


def _learning() -> None:
    from milp_plan.planners.learning import ClauseLearning
    from milp_plan.zoo import TRAPS

    problem = next(trap.problem for trap in TRAPS if ClauseLearning.suits(trap.problem))
    search = ClauseLearning(problem)
    tuple(search.plans(Budget()))
    assert search.complete


def _runs() -> None:
    from milp_plan.bounds.catalogue import frame_of
    from milp_plan.bounds.runs import run_bounds
    from milp_plan.bounds.tight import known_regions, tight_windows
    from milp_plan.zoo import TRAPS, generate

    frame = frame_of(TRAPS[0].problem)
    assert tuple(run_bounds(frame, tight_windows(frame, Budget()), Budget(), (1, None)))
    branches = generate("moe-tiny", "2xH100", mode="inference")
    assert known_regions(frame_of(branches), Budget()) is not None


PARTS: dict[str, Callable[[], None]] = {
    LIST_SCHEDULES: _schedules,
    MOVES: _moves,
    SHARDING: _sharding,
    SHARDING_SEARCH: _sharding_search,
    RUNS: _runs,
    LATENCY: _latency,
    LARGEST_LOAD: _largest_load,
    CONTIGUOUS_PARTS: _contiguous,
    HYBRID: _hybrid,
    "stashes": _stashes,
    NEAR: _near,
    SEQUENCES: _sequences,
    ENUMERATION: _enumeration,
    LEARNING: _learning,
    PACKING: _packing,
    "jobs": _jobs,
    "orders": _orders,
    "rematerialisation": _rematerialisation,
}
"""What has loops, by name; what takes longest to compile comes first."""


def compile_part(name: str) -> None:
    """Run the loops of one of :data:`PARTS`."""
    PARTS[name]()


def compile_loops(on_part: Callable[[str], None] = lambda _: None, workers: int = 1) -> None:
    """Run every compiled loop once, and so have it compiled and kept on disk.

    Parameters
    ----------
    on_part
        Called with the name of each part: before it begins or, with several workers, once it is
        done.
    workers
        Processes that compile side by side.
    """
    if workers == 1:
        for name in PARTS:
            on_part(name)
            compile_part(name)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        parts = {pool.submit(compile_part, name): name for name in PARTS}
        for part in as_completed(parts):
            part.result()
            on_part(parts[part])


def main() -> None:
    """Compile the part that the standard input names."""
    watch(int(sys.argv[1]))
    compile_part(sys.stdin.readline().strip())


if __name__ == "__main__":
    main()
