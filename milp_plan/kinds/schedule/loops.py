"""Compiled loops of the kind, called once on small problems."""

from __future__ import annotations

import math
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milp_plan.kinds.placement.serial.graph import SerialGraph


from milp_plan.core import Contiguity, SerialLaw
from milp_plan.core.budget import Budget
from milp_plan.run.loop_parts import END_S, LoopPart

LIST_SCHEDULES = LoopPart(
    "list schedules",
    "milp_plan.kinds.schedule.loops:run_schedules",
    "milp_plan.kinds.schedule.planners.search.annealing:cool",
)
MOVES = LoopPart(
    "moves of a search",
    "milp_plan.kinds.schedule.loops:run_moves",
    "milp_plan.kinds.schedule.planners.decoder.events:run_events",
)
SEARCH = (LIST_SCHEDULES, MOVES)
"""Parts that a search over whole schedules needs."""

RUNS = LoopPart(
    "runs along a spine",
    "milp_plan.kinds.schedule.loops:run_runs",
    "milp_plan.kinds.schedule.bounds.runs:possible",
)
LATENCY = LoopPart(
    "latency",
    "milp_plan.kinds.schedule.loops:run_latency",
    "milp_plan.kinds.placement.serial.lattice_loops:drop_all",
)
LARGEST_LOAD = LoopPart(
    "largest load",
    "milp_plan.kinds.schedule.loops:run_largest_load",
    "milp_plan.kinds.placement.bounds.flow:probe",
)
CONTIGUOUS_PARTS = LoopPart(
    "contiguous parts",
    "milp_plan.kinds.schedule.loops:run_contiguous",
    "milp_plan.kinds.placement.planners.chain_loops:extend_chains",
)
STASHES = LoopPart(
    "stashes",
    "milp_plan.kinds.schedule.loops:run_stashes",
)
WINDOWS = LoopPart(
    "window search",
    "milp_plan.kinds.schedule.loops:run_windows",
    "milp_plan.kinds.schedule.window_search.loops:contract",
)
ENUMERATION = LoopPart(
    "enumeration",
    "milp_plan.kinds.schedule.loops:run_enumeration",
    "milp_plan.kinds.schedule.planners.enumeration.placing:advance",
    after="list schedules",
)
LEARNING = LoopPart(
    "clause learning",
    "milp_plan.kinds.schedule.loops:run_learning",
    "milp_plan.kinds.schedule.planners.learning.search:search",
)
ORDERS = LoopPart(
    "orders",
    "milp_plan.kinds.schedule.loops:run_orders",
)
PARTS = (
    LIST_SCHEDULES,
    MOVES,
    RUNS,
    LATENCY,
    LARGEST_LOAD,
    CONTIGUOUS_PARTS,
    STASHES,
    WINDOWS,
    ENUMERATION,
    LEARNING,
    ORDERS,
)
"""All compiled loops of the kind."""


def _serial(contiguity: Contiguity = Contiguity.FREE, calls: int = 1) -> SerialGraph:
    from milp_plan.kinds.placement.planted import PAYER, ladder
    from milp_plan.kinds.placement.serial.graph import SerialGraph, read_serial

    graph = read_serial(ladder(SerialLaw((PAYER,), contiguity, calls=calls)))
    assert isinstance(graph, SerialGraph), graph
    return graph


def run_largest_load() -> None:
    """Call the loops that plan for the least load of the busiest device."""
    from milp_plan.kinds.placement.bounds.catalogue import serial_bounds
    from milp_plan.kinds.placement.bounds.conflicts import conflicts
    from milp_plan.kinds.placement.bounds.load import class_bound
    from milp_plan.kinds.placement.bounds.priced import priced_bounds
    from milp_plan.kinds.placement.planners.annealing import SerialAnnealing
    from milp_plan.kinds.placement.planners.resplit import resplitting

    graph = _serial()
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


def run_contiguous() -> None:
    """Call the loops that plan contiguous parts."""
    from milp_plan.kinds.placement.planners.baselines import CONTIGUOUS
    from milp_plan.kinds.placement.planners.contiguous import ContiguousSearch

    graph = _serial(Contiguity.CHAIN)
    for planner in CONTIGUOUS.values():
        planner(graph)
    search = ContiguousSearch(graph)
    search.linear()
    search.wide(1)
    search.exact()


def run_latency() -> None:
    """Call the loops that plan for latency."""
    from milp_plan.kinds.placement.bounds.gates import gate_bound
    from milp_plan.kinds.placement.planners.latency.annealing import Annealing
    from milp_plan.kinds.placement.planners.latency.ideals import ideal_levels
    from milp_plan.kinds.placement.planners.latency.segments import Line
    from milp_plan.kinds.placement.planners.latency.timing import arrays
    from milp_plan.kinds.placement.serial.atoms import merge_idle
    from milp_plan.kinds.placement.serial.operators import operator_tables

    for calls in (1, 2):
        tables = operator_tables(_serial(calls=calls))
        atoms = merge_idle(tables)
        gate_bound(atoms, lambda: math.inf)
        table = arrays(atoms)
        line = Line(atoms, table)
        places, _ = line.cut(line.order(1))
        Annealing(table, places, seed=0).run(1, lambda: 1.0, lambda _: None)
        result = ideal_levels(tables)
        assert result is not None
        for looks in (1_000_000, *range(1, 9)):  # to the end, and out of time
            time_left = partial(next, repeat(1.0, looks), 0.0)
            result.run(lambda: math.inf, time_left, lambda _: None, lambda *_: None)


def run_stashes() -> None:
    """Call the loops that plan the stashes of pipelines."""
    from milp_plan.kinds.pipeline.case import Case, build
    from milp_plan.kinds.pipeline.model import Model
    from milp_plan.kinds.pipeline.planners.stashing import Stashing
    from milp_plan.kinds.pipeline.stash import StashShop, read_stashes

    from .planners.portfolio import best_plan

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


def run_orders() -> None:
    """Call the loops that search for orders on one device."""
    from milp_plan.zoo import TRAPS

    from .planners.ordering import ORDERS, Orderer, OrderGraph, read_order

    for problem in (trap.problem for trap in TRAPS):
        graph = read_order(problem)
        if isinstance(graph, OrderGraph):
            orderer = Orderer(graph, ORDERS["definition-order"](graph))
            tuple(orderer.search(Budget(END_S), 0))


def run_windows() -> None:
    """Call the loops of the window search."""
    from milp_plan.zoo import TRAPS

    from .planners.dispatch import dispatch
    from .planners.indexed import indexed
    from .window_search.model import Model
    from .window_search.scope import Scope
    from .window_search.timeline import Timeline

    problem = TRAPS[0].problem
    plan = dispatch(problem, priority=problem.graph.topological_order)
    assert plan is not None
    timeline = Timeline(indexed(problem), plan)
    Model(Scope(timeline, range(len(timeline.spots)), timeline.makespan))


def run_schedules() -> None:
    """Call the loops of the list scheduler and of its search."""
    from .model.planted import planted_with_plan
    from .planners.search.parallel import ParallelAnnealing

    problem, plan = planted_with_plan(0)
    annealing = ParallelAnnealing(problem)
    annealing.construct(Budget(END_S))
    annealing.add(plan)
    annealing.run(Budget(END_S), 100)


def run_moves() -> None:
    """Call the loops of moves, in the reverse of the order in which another process begins."""
    from .model.planted import planted
    from .planners.decoder.events import run_events
    from .planners.search.annealing import Annealing
    from .planners.search.states import move, take_back
    from .planners.search.urgency import rank_anew
    from .planners.search.waits import note, same

    search = Annealing(planted(0))
    a, t, undo = search.decoder.memory.a, search.decoder.memory.t, search.undo
    move(a, t, search.units, undo, search.width)
    rank_anew(a, t, undo, search.urgency, search.width)
    same(a, t, search.waits, undo)
    note(a, t, search.waits, search.rules.holding)
    take_back(a, t, undo)
    run_events(a, t, (False, False, False), 0)


def run_enumeration() -> None:
    """Call the loops of the enumeration."""
    from .model.planted import planted
    from .planners.enumeration.search import Enumeration

    every = Enumeration(planted(0))
    tuple(every.plans(Budget()))
    assert every.least is not None


def run_learning() -> None:
    """Call the loops of clause learning."""
    from milp_plan.zoo import TRAPS

    from .planners.learning import ClauseLearning

    problem = next(trap.problem for trap in TRAPS if ClauseLearning.suits(trap.problem))
    search = ClauseLearning(problem)
    tuple(search.plans(Budget()))
    assert search.complete


def run_runs() -> None:
    """Call the loops of bounds from runs along a spine."""
    from milp_plan.zoo import TRAPS, generate

    from .bounds.catalogue import frame_of
    from .bounds.runs import run_bounds
    from .bounds.tight import known_regions, tight_windows

    frame = frame_of(TRAPS[0].problem)
    assert tuple(run_bounds(frame, tight_windows(frame, Budget()), Budget(), (1, None)))
    branches = generate("moe-tiny", "2xH100", mode="inference")
    assert known_regions(frame_of(branches), Budget()) is not None
