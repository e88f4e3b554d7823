"""MemFlow's search with and without recomputation, under less and less memory.

For a training step whose layers may run in any way on a mesh of four devices: a chain that is blind
to memory says how fast it can be and what that holds (the *blind peak*). Then, under parts of the
blind peak, chains that know memory, without and with recomputation, from three starts each: the
blind one's plan (itself from the expert's, the best list schedule), data parallelism, and ways
drawn at random. A last chain begins at the best of these, or at the best without recomputation.

The study is ``results/paper/memflow/study.toml``: ``milp-plan table results/paper/memflow``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memflow_chain import Chain, ChainState, Found

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.zoo import generate

EXPERTS = ("single_device", "list_topological", "heft")
SAMPLES = "2x2 x:b y:b"
"""Begins the name of the option that cuts the samples over all four devices."""

NOISE = 0.01
"""Part by which one chain may be worse than another that can do less."""

SURELY = (1.0, 0.9, 0.8)
"""Parts of the blind peak at which recomputation finds a plan."""

Row = dict[str, Any]


def problem_of(case: Mapping[str, Any]) -> PlanningProblem:
    """Forward operators may run again; devices hold whatever comes."""
    made = generate(
        case["model"], "4xV100", batch=case["batch"], meshes=("2", "2x2"), optimizer="sgd",
        granularity=case.get("granularity", "fine"),
    )  # fmt: skip
    operators = (replace(op, recomputable=op.kind == "forward") for op in made.graph.operators)
    graph = replace(made.graph, operators=tuple(operators))
    return within(replace(made, graph=graph), None)


def within(problem: PlanningProblem, memory: int | None) -> PlanningProblem:
    """Every device holds this many bytes."""
    names = problem.cluster.device_names
    return replace(problem, cluster=problem.cluster.with_memory(dict.fromkeys(names, memory)))


def samples(chain: Chain) -> ChainState:
    """Data parallelism: samples over all devices, wherever that is a way."""
    ways = []
    for unit, way in zip(chain.states.ways, chain.start.ways, strict=True):
        cut = [one for one in unit if one[0].placement.option.startswith(SAMPLES)]
        ways.append(cut[0] if cut else way)
    return ChainState(tuple(ways), frozenset())


def measure(case: Mapping[str, Any]) -> Row:
    """All parts of the blind peak, with and without recomputation."""
    free = problem_of(case)
    expert, _ = best_plan(free, {name: PLANNERS[name] for name in EXPERTS}, seed=case["seed"])
    assert expert is not None
    blind = searched(free, expert, case, recompute=False, blind=True)
    assert blind.plan is not None
    assert blind.measure is not None
    peak = max(blind.measure.peaks)
    chain = Chain(free, expert, recompute=False, blind=True)
    alone = chain.run(0, Budget(), samples(chain)).measure
    assert alone is not None
    row = {
        "operators": len(free.graph.operators),
        "blind_ticks": blind.measure.ticks,
        "blind_peak": peak,
        "expert_ticks": expert.value,
        "samples_ticks": alone.ticks,
        "samples_peak": max(alone.peaks),
        "limits": [],
    }
    for part in case["parts"]:
        problem = within(free, int(part * peak))
        line: Row = {"part": part}
        found: list[Found] = []
        for name, recompute in (("kept", False), ("again", True)):
            found = [searched(problem, blind.plan, case, found, recompute=recompute)]
            line |= told(name, problem, found[0])
        row["limits"].append(line)
    return row


def searched(
    problem: PlanningProblem,
    start: Plan,
    case: Mapping[str, Any],
    known: Sequence[Found] = (),
    **how: Any,
) -> Found:
    """Return the best of the chains from all starts, and of one from the best of these."""
    found = list(known)
    for number in range(case["chains"] + 1):
        chain = Chain(problem, start, seed=case["seed"] + number, **how)
        states = [chain.start, samples(chain), chain.random_state()]
        state = states[number % 3] if number < case["chains"] else _best(found).state
        if state is not None:
            found.append(chain.run(case["proposals"], Budget(case["limit_s"]), state))
    return _best(found)


def _best(found: Sequence[Found]) -> Found:
    return min(found, key=lambda one: one.measure.ticks if one.measure else float("inf"))


def told(name: str, problem: PlanningProblem, found: Found) -> Row:
    """Time and peak, both by the checker alone."""
    if found.plan is None or found.measure is None:
        return {f"{name}_ticks": None, f"{name}_peak": None, f"{name}_ok": True}
    verdict = verify(problem, found.plan)
    peak = verdict.components["peak_memory"]
    agree = (verdict.value, peak) == (found.measure.ticks, max(found.measure.peaks))
    return {
        f"{name}_ticks": verdict.value,
        f"{name}_peak": peak,
        f"{name}_ok": verdict.ok and agree,
    }


# -- the page ------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Rows of both tables: ticks are nanoseconds."""
    models = [
        row | {f"{name}_ms": row[f"{name}_ticks"] / 1e6 for name in ("blind", "expert", "samples")}
        for row in rows
    ]
    for row in models:
        row["model"] = _name(row)
        row["blind_gb"], row["samples_gb"] = row["blind_peak"] / 1e9, row["samples_peak"] / 1e9
    return {"models": models, "limits": list(_limits(rows))}


def _name(row: Row) -> str:
    """The model and, where it is another one, how fine its operators are."""
    return "-".join(part for part in (row["model"], row.get("cut")) if part)


def _limits(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        for line in row["limits"]:
            shown: Row = {"model": _name(row), "part": line["part"]}
            for name in ("kept", "again"):
                ticks, peak = line[f"{name}_ticks"], line[f"{name}_peak"]
                shown[f"{name}_ms"] = None if ticks is None else ticks / 1e6
                shown[f"{name}_more"] = None if ticks is None else ticks / row["blind_ticks"] - 1
                shown[f"{name}_gb"] = None if peak is None else peak / 1e9
            shown["check"] = "ok" if line["kept_ok"] and line["again_ok"] else "FAILS"
            yield shown


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the claims of the page."""
    found = []
    for row in rows:
        for line in row["limits"]:
            where, again = f"{_name(row)} at {line['part']:g}", line["again_ticks"]
            if not (line["kept_ok"] and line["again_ok"]):
                found.append(f"{where}: the checker disagrees with the simulator")
            if line["part"] in SURELY and again is None:
                found.append(f"{where}: nothing found with recomputation")
            if line["part"] == 1.0 and again and again > (1.0 + NOISE) * row["blind_ticks"]:
                found.append(f"{where}: more than {NOISE:.0%} above the blind search")
            if (
                None not in (again, line["kept_ticks"])
                and again > (1.0 + NOISE) * line["kept_ticks"]
            ):
                found.append(f"{where}: more than {NOISE:.0%} slower than with all kept")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Time against memory for each model, with and without recomputation."""
    found = {}
    for row in rows:
        with drawing_style():
            figure = new_figure(6, 4)
            axes = figure.subplots()
            for name, mark, label in (("kept", "-o", "all kept"), ("again", "-s", "may run again")):
                points = [
                    (100 * line["part"], line[f"{name}_ticks"] / 1e6)
                    for line in row["limits"]
                    if line[f"{name}_ticks"] is not None
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), mark, label=label)
            blind = row["blind_ticks"] / 1e6
            axes.axhline(blind, color="grey", linewidth=0.8, label="blind to memory")
            axes.set_xlabel("memory per device, % of the blind peak")
            axes.set_ylabel("training step, ms")
            axes.set_title(_name(row))
            axes.legend()
        found[f"{_name(row)}.png"] = figure
    return found
