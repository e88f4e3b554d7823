"""What offload lanes are worth: makespan without and with them, under the same memory.

One stage per device, with input and weight gradients apart, for several memory limits and lane
times, once with every activation staying on its device and once with activations that may wait on
a host; idle time is what the makespan exceeds a device's work by. Times are in forward passes.

The column ``rule`` is a comparison: list schedules with the selective offload of PipeOffload
(arXiv 2503.01328). An activation travels for free if the round trip is no longer than the time
between its forward and its backward pass on that stage; those that wait longest travel first.

The study is ``results/offload/study.toml``: ``milp-plan table results/offload``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.stash import StashShop, read_stashes
from milp_plan.kinds.pipeline.template import BACKWARD, FORWARD, WEIGHT
from milp_plan.run import Settings, solve

STAGES, BATCHES = 4, 8
CAPS = (1, 2, 3, 4)
LANE_TIMES = (Fraction(1, 2), Fraction(1), Fraction(2))
"""Time of a journey, in forward passes."""

Row = dict[str, Any]
Starts = dict[str, int]
Trips = dict[str, tuple[int, int]]


def problem_of(cap: int, lane: Fraction) -> PlanningProblem:
    """One case."""
    model = Model.from_share((1, 1, 1))
    return build(Case(model, STAGES, BATCHES, memory=cap, lane=lane)).problem


def measure(case: Mapping[str, Any]) -> Row:
    """Plan every pipeline; slow lanes and little memory first, so that plans carry over."""
    rows: list[Row] = []
    plans: dict[tuple[int, Fraction], Plan] = {}
    for lane in sorted(LANE_TIMES, reverse=True):
        for cap in CAPS:
            problem = problem_of(cap, lane)
            known = [plan for (c, x), plan in plans.items() if c <= cap and x >= lane]
            settings = Settings(
                time_limit_s=case["limit_s"], seed=case["seed"], hints=tuple(known[::-1][:4])
            )
            answer = solve(problem, settings)
            plan, ticks = answer.plan, problem.units.time_scale
            stay = answer.record.get("stay") or {"value": None, "bound": 0}
            if plan is not None:
                plans[cap, lane] = plan
            verdict = None if plan is None else verify(problem, plan)
            hosts = problem.cluster.hosts
            away = [] if plan is None else [t for t in plan.transfers if t.target[0] in hosts]
            rows.append(
                {
                    "cap": cap,
                    "lane": float(lane),
                    "stay": _units(stay["value"], ticks),
                    "stay_bound": _units(stay["bound"], ticks),
                    "travel": _units(answer.value, ticks),
                    "bound": _units(answer.bound or 0, ticks),
                    "rule": _units(rule(problem), ticks),
                    "journeys": len(away),
                    "seconds": answer.seconds,
                    "valid": bool(verdict and verdict.ok and verdict.value == answer.value),
                }
            )
    _carry_bounds(rows)
    return {"pipelines": rows}


def _carry_bounds(rows: list[Row]) -> None:
    """A bound holds with less memory and slower lanes; one without journeys with less memory."""
    for row in rows:
        for other in rows:
            if other["cap"] >= row["cap"] and other["lane"] <= row["lane"]:
                row["bound"] = max(row["bound"], other["bound"])
            if other["cap"] >= row["cap"]:
                row["stay_bound"] = max(row["stay_bound"], other["stay_bound"])


def _units(ticks: int | None, scale: int) -> float | None:
    return None if ticks is None else ticks / scale


# -- selective offload by rule -------------------------------------------------------------------


def rule(problem: PlanningProblem) -> int | None:
    """Return the best makespan of list schedules whose free journeys make them fit."""
    shop = read_stashes(problem)
    assert isinstance(shop, StashShop), shop
    values = []
    for limit in range(1, BATCHES + 1):
        for weights_last in (True, False):
            starts = list_schedule(shop, limit, weights_last=weights_last)
            if starts is not None:
                plan = shop.plan(starts, {}, free_trips(shop, starts), "rule")
                verdict = verify(problem, plan)
                values += [verdict.value] if verdict.ok else []
    return min((value for value in values if value is not None), default=None)


def list_schedule(shop: StashShop, limit: int, *, weights_last: bool) -> Starts | None:
    """List schedule without memory, with fewer than ``limit`` activations before a forward pass.

    Input gradients go before forward passes; ``None`` where everything waits for a forward pass.
    """
    graph, last = shop.problem.graph, {kept.maker: kept.last for kept in shop.values}
    rank = {BACKWARD: 1, FORWARD: 2, WEIGHT: 3 if weights_last else 0}
    waits: dict[str, list[tuple[str, int]]] = {name: [] for name in shop.steps}
    for before, after, lag in shop.arcs:
        waits[after].append((before, lag))
    starts: Starts = {}
    stops: Starts = {}
    free = dict.fromkeys(shop.on_device, 0)
    while len(starts) < len(shop.steps):
        offers = []
        for device, names in shop.on_device.items():
            flying = sum(n in starts and last[n] not in starts for n in names if n in last)
            for place, name in enumerate(names):
                kind = graph.operator(name).kind
                if name in starts or (kind == FORWARD and flying >= limit):
                    continue
                if all(before in stops for before, _ in waits[name]):
                    ready = [free[device], *(stops[before] + lag for before, lag in waits[name])]
                    batch = graph.operator(name).micro_batch or 0
                    offers.append((max(ready), rank[kind], batch, place, name, device))
        if not offers:
            return None
        begin, *_, name, device = min(offers)
        starts[name] = begin
        stops[name] = free[device] = begin + shop.steps[name].ticks
    return starts


def free_trips(shop: StashShop, starts: Starts) -> Trips:
    """Return journeys that cost no time, of activations that wait longest, until devices fit."""
    trips: Trips = {}
    for device, limit in shop.limits.items():
        held = [k for k in shop.values if shop.steps[k.maker].device == device]
        first = {stash.maker: stash.first for stash in shop.stashes}
        waiting = sorted(held, key=lambda k: starts[k.maker] - starts[first[k.maker]])
        taken: list[Any] = []
        for kept in [None, *waiting]:
            found = _on_lanes(shop, starts, first, [*taken, kept] if kept else taken)
            if found is not None:
                taken += [kept] if kept else []
                trips |= found
                if _peak(shop, starts, held, trips) <= limit:
                    break
    return trips


def _on_lanes(shop: StashShop, starts: Starts, first: Mapping[str, str], taken: Any) -> Any:
    """Journeys out as early and back as late as can be; ``None`` if one would be late."""
    outs: Starts = {}
    free = 0
    for kept in sorted(taken, key=lambda k: starts[k.maker]):
        outs[kept.value] = max(starts[kept.maker] + shop.steps[kept.maker].ticks, free)
        free = outs[kept.value] + kept.out_ticks
    trips: Trips = {}
    until: int | None = None
    for kept in sorted(taken, key=lambda k: -starts[first[k.maker]]):
        due = starts[first[kept.maker]]
        until = min(due, due if until is None else until) - kept.back_ticks
        if until < outs[kept.value] + kept.out_ticks:
            return None
        trips[kept.value] = outs[kept.value], until
    return trips


def _peak(shop: StashShop, starts: Starts, held: Any, trips: Trips) -> int:
    """Largest number of bytes of some values on their device."""
    changes: list[tuple[int, int]] = []
    for kept in held:
        begin, end = starts[kept.maker], starts[kept.last] + shop.steps[kept.last].ticks
        out, back = trips.get(kept.value, (begin, begin))
        gone = out + kept.out_ticks if kept.value in trips else begin
        for a, b in ((begin, gone), (back, end)):
            changes += [(a, kept.bytes), (b, -kept.bytes)] if a < b else []
    peak = now = 0
    for _, size in sorted(changes):
        now += size
        peak = max(peak, now)
    return peak


# -- the page ------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Add what the page says in words."""
    planned = sorted(_pipelines(rows), key=lambda row: (row["cap"], row["lane"]))
    for row in planned:
        row["check"] = "ok" if row["valid"] else "FAILS"
        row["cut"] = idle_cut(row)
    return {"stages": STAGES, "batches": BATCHES, "work": 3 * BATCHES, "planned": planned}


def _pipelines(rows: list[Row]) -> list[Row]:
    return [dict(line) for row in rows if row["of"] == "pipelines" for line in row["pipelines"]]


def idle_cut(row: Row) -> float | None:
    """Part of a device's idle time that goes."""
    if row["stay"] is None or row["travel"] is None or row["stay"] == 3 * BATCHES:
        return None
    return 1 - float((row["travel"] - 3 * BATCHES) / (row["stay"] - 3 * BATCHES))


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the claims of the page."""
    found = []
    for row in _pipelines(rows):
        where = f"memory {row['cap']}, lane {row['lane']:g}"
        if not row["valid"]:
            found.append(f"{where}: the plan fails the check")
        if row["stay"] is not None and (row["travel"] is None or row["travel"] > row["stay"]):
            found.append(f"{where}: worse than with all staying")
        if row["travel"] is not None and row["bound"] > row["travel"]:
            found.append(f"{where}: bound {row['bound']:g} above {row['travel']:g}")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Makespan against memory, one line per lane time and one without journeys."""
    planned = _pipelines(rows)
    with drawing_style():
        figure = new_figure(6, 4)
        axes = figure.subplots()
        stay = sorted({(row["cap"], row["stay"]) for row in planned if row["stay"] is not None})
        axes.plot(*zip(*stay, strict=True), "k-o", label="all stay")
        for lane, mark in zip(sorted({row["lane"] for row in planned}), "s^v", strict=True):
            own = [row for row in planned if row["lane"] == lane and row["travel"] is not None]
            line = sorted((row["cap"], row["travel"]) for row in own)
            axes.plot(*zip(*line, strict=True), f"-{mark}", label=f"lane {lane:g}")
        axes.axhline(3 * BATCHES, color="grey", linewidth=0.8, label="work of a device")
        axes.set_xlabel("memory per device, activations of one micro-batch")
        axes.set_ylabel("makespan, forward passes")
        axes.set_xticks(CAPS)
        axes.set_title(f"{STAGES} stages, {BATCHES} micro-batches")
        axes.legend()
    return {"offload.png": figure}
