"""Schedule problems: where operators run, how they are sharded, when, and what memory holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import (
    TICKS_PER_SECOND,
    Contiguity,
    Finding,
    InputError,
    Objective,
    Passes,
    Plan,
    PlanningProblem,
    SerialLaw,
    Units,
    Verdict,
)
from milp_plan.core.amounts import size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.graph import depth
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document
from milp_plan.run.change import Change, count, host, objective_of, positive
from milp_plan.run.kind import Export, Format, Kind, Measure, Restart
from milp_plan.run.scope import Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.io.goal import Goal
    from milp_plan.run.ledger import Ledger
    from milp_plan.run.reasons.base import Reasons


CHANGES = (
    Change(
        "memory_scale",
        "Factor on the memory of every device, exact: 0.8 or 4/5.",
        positive,
        "FRACTION",
    ),
    Change("recompute", "Forward operators may run again where memory requires it."),
    Change(
        "host",
        "A host that holds values for all devices, its memory and the bandwidth to and from each "
        "device: 512GiB@25GB/s.",
        host,
        "SIZE@RATE",
    ),
    Change(
        "objective",
        f"Objective, if not the instance's own: {', '.join(entry.value for entry in Objective)}.",
        str,
        "NAME",
    ),
    Change(
        "contiguous",
        "Objective bottleneck, serial law: consecutive parts of the forward pass.",
    ),
    Change(
        "separate_passes",
        "Objective bottleneck, serial law: largest forward plus largest backward load.",
    ),
    Change(
        "calls",
        "Objective latency: invocations per accelerator.  [default: 1]",
        count,
        "N",
    ),
)


class Schedule(Kind[PlanningProblem, Plan]):
    """The kind of :class:`milp_plan.core.PlanningProblem`; pipelines and serial ones as well."""

    name = "schedule"
    title = "operators on devices: placement, sharding options, order, transfers, memory"
    marker = "milp-plan-instance"
    handles = "milp_plan.core.problem:PlanningProblem"
    plans = "milp_plan.core.plan:Plan"
    changes = CHANGES

    def formats(self) -> tuple[Format[PlanningProblem], ...]:
        """Native files, and those of the placement benchmark."""
        from milp_plan.io import native

        from .formats import DNN_PARTITIONING, NATIVE, is_benchmark

        benchmark = ("dnn-partitioning", DNN_PARTITIONING, is_benchmark)
        return (
            Format("native", NATIVE, native.can_read, _read, native.to_json),
            Format(*benchmark, _read),
        )

    def read_plan(self, file: Path, problem: PlanningProblem, instance_file: Path) -> Plan:
        """Read a plan, or a split of the placement benchmark."""
        from milp_plan.io.files import read_document
        from milp_plan.io.plan_file import plan_from_json
        from milp_plan.kinds.placement.dnn_split import is_split, read_split

        document = read_document(file, "a plan file")
        if is_split(document):
            plan = read_split(document, instance_file, problem)
        else:
            plan = plan_from_json(document.data, document.file)
        refuse_other(plan.problem, problem.name, file, instance_file)
        return plan

    def is_plan(self, document: Document) -> bool:
        """By its marker, or as a split of the placement benchmark."""
        from milp_plan.io.plan_wire import MARKER
        from milp_plan.kinds.placement.dnn_split import is_split

        return document.marker == MARKER or is_split(document)

    def exports(self) -> Mapping[str, Export[PlanningProblem, Plan]]:
        """A trace, files for torch, a split of the placement benchmark."""
        from milp_plan.kinds.placement import dnn_split

        from .torch_exports import torch_exports

        return {
            "places": Export("places and order alone, to start from again", _is_places, _places),
            "perfetto": Export(
                "trace for ui.perfetto.dev", lambda d: "traceEvents" in d.top_level, _trace
            ),
            **torch_exports(),
            "dnn-split": Export(
                "split of the placement benchmark", dnn_split.is_split, dnn_split.split_text
            ),
        }

    def plan_text(self, plan: Plan) -> bytes:
        """Text of a plan's file."""
        from milp_plan.io.plan_file import plan_to_json

        return plan_to_json(plan)

    def verify(self, problem: PlanningProblem, plan: Plan) -> Verdict:
        """Every law of docs/laws.md."""
        from milp_plan.check import verify

        return verify(problem, plan)

    def claimed(self, problem: PlanningProblem, plan: Plan, value: int, planner: str) -> Plan:
        """Return the plan with its claims."""
        claimed = plan.claimed(str(problem.objective), value, planner)
        return replace(claimed, fingerprint=problem.fingerprint, parent=problem.parent)

    def measure(self, problem: PlanningProblem) -> Measure:
        """Ticks, or bytes for peak memory."""
        of_bytes = problem.objective is Objective.PEAK_MEMORY
        return Measure(problem.objective.value, problem.units, "size" if of_bytes else "time")

    def scope(self, problem: PlanningProblem) -> Scope:
        """Placement, options, order; recomputation and hosts where they are offered."""
        from .scope import placement_scope

        return placement_scope(problem)

    def summary(self, problem: PlanningProblem) -> dict[str, Any]:
        """Sizes, and what the serial law asks for."""
        law = problem.serial
        return {
            "operators": len(problem.graph.operators),
            "values": len(problem.graph.values),
            "devices": len(problem.cluster.devices),
            "memory_law": problem.memory_law.value,
            "communication": problem.cluster.communication.value,
            "contiguous": law is not None and law.contiguity is Contiguity.CHAIN,
            "separate_passes": law is not None and law.passes is Passes.SEPARATE,
            "calls": None if law is None else law.calls,
        }

    def info(self, problem: PlanningProblem) -> dict[str, Any]:
        """Figures of graph and cluster; ticks and bytes are exact."""
        graph, cluster = problem.graph, problem.cluster
        persistent = [value for value in graph.values if value.persistent]
        made = [value for value in graph.values if not value.persistent]
        options = [len(operator.options) for operator in graph.operators]
        return {
            "kinds": dict(Counter(operator.kind for operator in graph.operators)),
            "made_values": len(made),
            "persistent_values": len(persistent),
            "edges": sum(len(after) for after in graph.successors.values()),
            "depth": depth(graph),
            "colocation_groups": len(graph.groups),
            "options_per_operator": {
                "least": min(options, default=0),
                "most": max(options, default=0),
            },
            "work_ticks": sum(_fastest(problem, operator.name) for operator in graph.operators),
            "persistent_bytes": sum(max(value.bytes.values()) for value in persistent),
            "made_bytes": sum(max(value.bytes.values()) for value in made),
            "results": sum(value.is_kept for value in made),
            "result_bytes": sum(max(v.bytes.values()) for v in made if v.is_kept),
            "neither_read_nor_kept": sum(not (v.consumers or v.is_kept) for v in made),
            "cluster": [
                {
                    "name": device.name,
                    "device_class": device.device_class,
                    "memory_bytes": device.memory_bytes,
                }
                for device in cluster.devices
            ],
            "channels": len(cluster.channels),
            "process_groups": len(cluster.groups),
            "serial_law": None if problem.serial is None else asdict(problem.serial),
        }

    def rows(self, problem: PlanningProblem) -> list[list[str]]:
        """The same for people."""
        facts, units = self.summary(problem) | self.info(problem), problem.units
        kinds = ", ".join(f"{count} {kind}" for kind, count in facts["kinds"].items())
        least, most = facts["options_per_operator"].values()
        options = str(least) if least == most else f"{least} to {most}"
        return [
            ["memory law", facts["memory_law"]],
            ["operators", f"{facts['operators']:,} ({kinds})"],
            ["options per operator", options],
            ["colocation groups", f"{facts['colocation_groups']:,}"],
            ["values", f"{facts['made_values']:,} made, {facts['persistent_values']:,} persistent"],
            ["edges", f"{facts['edges']:,}"],
            ["longest path", f"{facts['depth']:,} operators"],
            ["work", f"{time_text(units, facts['work_ticks'])} at every operator's fastest"],
            ["persistent bytes", size_text(units, facts["persistent_bytes"])],
            ["bytes made", size_text(units, facts["made_bytes"])],
            ["results", _results(facts, units)],
            ["devices", _devices(problem)],
            ["communication", f"{facts['channels']:,} channels, model {facts['communication']}"],
            *([["serial law", _law(problem.serial)]] if problem.serial else []),
            ["process groups", f"{facts['process_groups']:,}"],
        ]

    def explain(self, problem: PlanningProblem, plan: Plan, verdict: Verdict) -> str:
        """The cut of a pipeline, memory of the devices and the critical chain, in words."""
        from milp_plan.check.explain import explain
        from milp_plan.kinds.pipeline.case import cut_lines

        first, *others = explain(problem, plan, verdict).splitlines()
        return "\n".join([first, *cut_lines(problem), *others])

    def explain_data(
        self, problem: PlanningProblem, plan: Plan, verdict: Verdict
    ) -> dict[str, Any]:
        """Memory of the devices and the critical chain; of a broken plan neither means much."""
        if not verdict.ok:
            return {"memory": [], "critical_chain": []}
        from milp_plan.check import replay
        from milp_plan.check.chain import critical_chain

        memories = replay(problem, plan).devices.values()
        names = ("device", "limit_bytes", "persistent_bytes", "peak_bytes", "peak_ticks")
        return {
            "memory": [{name: getattr(entry, name) for name in names} for entry in memories],
            "critical_chain": [asdict(link) for link in critical_chain(problem, plan)],
        }

    def plan_rows(self, problem: PlanningProblem | None, plan: Plan) -> Iterator[dict[str, Any]]:
        """Runs and transfers by their start; what a transfer goes between, and its layout."""
        from .rows import placement_rows

        return placement_rows(problem, plan)

    def panels(self, problem: PlanningProblem, plan: Plan) -> Sequence[Panel]:
        """Timeline, memory and utilisation; or loads where there is no clock."""
        from milp_plan.kinds.placement.draw import loads_panels

        from .draw import schedule_panels

        _need_known_names(problem, plan)
        return (schedule_panels if problem.serial is None else loads_panels)(problem, plan)

    def record_tables(
        self, record: Mapping[str, Any], measure: Measure
    ) -> Iterator[tuple[Sequence[str], list[list[str]]]]:
        """The coarse problems of stage two."""
        if record.get("coarse_stages"):
            from .coarse_problem import HEADS, coarse_problem_table

            yield HEADS, coarse_problem_table(record["coarse_stages"], measure)

    def names_in_plan(self, plan: Plan) -> Sequence[str]:
        """Operators that it runs."""
        return [run.operator for run in plan.runs]

    def restarts(self, problem: PlanningProblem, plan: Plan) -> Iterator[Restart]:
        """Recompute times in the plan's orders; later or reordered where memory requires it."""
        from .restarts import placement_restarts

        return placement_restarts(problem, plan)

    def reasons(self) -> Reasons[PlanningProblem, Plan]:
        """Its parts and limits, and why a plan's value is what it is."""
        from .reasons import ScheduleReasons

        return ScheduleReasons()

    def unplaced(self, problem: PlanningProblem) -> str | None:
        """Operators that no device or group of the cluster can run."""
        return None if problem.unplaced is None else problem.unplaced.reason

    def obstacle(self, problem: PlanningProblem, budget: Budget) -> str | None:
        """Operators that fit nowhere, values that do not fit anywhere."""
        from .bounds.catalogue import infeasibility

        result = infeasibility(problem, budget)
        return None if result is None else result.reason

    def bounds(
        self, problem: PlanningProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """The catalogue, by objective and law."""
        from .bounds.catalogue import all_bounds

        return all_bounds(problem, budget, incumbent)

    def strategies(self) -> Sequence[type[Strategy[PlanningProblem, Plan]]]:
        """Special forms first; the last one is for every problem."""
        from milp_plan.kinds.pipeline.strategies.shop import ShopStrategy
        from milp_plan.kinds.pipeline.strategies.stash import StashStrategy
        from milp_plan.kinds.placement.strategies.contiguous import ContiguousStrategy
        from milp_plan.kinds.placement.strategies.latency import LatencyStrategy
        from milp_plan.kinds.placement.strategies.max_load import MaxLoadStrategy
        from milp_plan.kinds.placement.strategies.places import PlacesStrategy

        from .strategies.memory import MemoryStrategy
        from .strategies.order import OrderStrategy
        from .strategies.schedule import ScheduleStrategy

        return (
            StashStrategy,
            MemoryStrategy,
            LatencyStrategy,
            ContiguousStrategy,
            MaxLoadStrategy,
            PlacesStrategy,
            ShopStrategy,
            OrderStrategy,
            ScheduleStrategy,
        )

    def strategies_for(
        self, problem: PlanningProblem
    ) -> Sequence[type[Strategy[PlanningProblem, Plan]]]:
        """The general one alone, unless law, objective or form are special."""
        from milp_plan.kinds.pipeline.reading import read_shop

        from .strategies.schedule import ScheduleStrategy

        special = problem.serial is not None or problem.allows_memory_saving
        special = special or problem.objective is Objective.PEAK_MEMORY
        if special or not isinstance(read_shop(problem), str):
            return self.strategies()
        return (ScheduleStrategy,)

    def search_round(self, ledger: Ledger[PlanningProblem, Plan], *, construct: bool) -> None:
        """Search from the ledger's plan, after constructions where they are asked for."""
        from .strategies.schedule import ScheduleStrategy

        ScheduleStrategy(ledger).search(construct=construct)

    def heuristics(self) -> Mapping[str, Callable[[PlanningProblem, int], Plan | None]]:
        """List schedules and their like, then schedules of pipelines."""
        from milp_plan.kinds.pipeline.experts import EXPERTS

        from .planners.baselines import PLANNERS
        from .planners.ordering import ORDERS, plan_by

        def seedless(expert: Any) -> Callable[[PlanningProblem, int], Plan | None]:
            return lambda problem, _seed: expert(problem)

        result = PLANNERS | {name: seedless(expert) for name, expert in EXPERTS.items()}
        return result | {name: seedless(partial(plan_by, name)) for name in ORDERS}


def _results(facts: Mapping[str, Any], units: Units) -> str:
    """Write what is kept to the end, and how many values nobody wants."""
    text = f"{facts['results']:,} kept to the end, {size_text(units, facts['result_bytes'])}"
    unwanted = facts["neither_read_nor_kept"]
    return f"{text}; {unwanted:,} values neither read nor kept" if unwanted else text


def _trace(problem: PlanningProblem, plan: Plan, _file: Path) -> bytes:
    from milp_plan.check import replay

    from .perfetto import trace_text

    _need_known_names(problem, plan)
    memory = {name: entry.steps for name, entry in replay(problem, plan).devices.items()}
    return trace_text(problem, plan, memory)


def _is_places(document: Document) -> bool:
    from milp_plan.io.plan_wire import MARKER

    return document.marker == MARKER and b'"start_ns"' not in document.data


def _places(problem: PlanningProblem, plan: Plan, _file: Path) -> bytes:
    """Runs in the order of their starts, without times and transfers: they follow."""
    from milp_plan.io.plan_file import plan_to_json

    _need_known_names(problem, plan)
    runs = sorted(plan.runs, key=lambda run: (run.start_ticks or 0, run.stop_ticks or 0))
    bare = tuple(replace(run, start_ticks=None, stop_ticks=None) for run in runs)
    return plan_to_json(Plan(plan.problem, bare, planner=plan.planner))


def _need_known_names(problem: PlanningProblem, plan: Plan) -> None:
    """Refuse a plan that names what the problem does not have."""
    findings = list(_unknown_names(problem, plan))
    if findings:
        raise InputError(findings)


def _unknown_names(problem: PlanningProblem, plan: Plan) -> Iterator[Finding]:
    """List what a plan names and the problem does not have: it cannot be drawn."""
    used = {name for run in plan.runs for name in run.devices}
    used |= {name for trip in plan.transfers for name in (*trip.source, *trip.target)}
    unknown = [("device", name) for name in sorted(used - set(problem.cluster.device_names))]
    unknown += [
        ("operator", run.operator)
        for run in plan.runs
        if not problem.graph.has_operator(run.operator)
    ]
    for what, name in unknown:
        yield Finding(what, repr(name), f"a known {what}", "plan the instance again")


def _read(document: Document, changes: Mapping[str, Any]) -> PlanningProblem:
    from .formats import read_whole

    problem = read_whole(document, goal_of(changes))
    scale = changes.get("memory_scale")
    if scale is not None:
        scale = Fraction(scale)
        problem = problem.with_memory_scale(scale.numerator, scale.denominator)
    if changes.get("recompute"):
        problem = problem.with_recomputation()
    if changes.get("host") is not None:
        memory, moved, ticks = changes["host"].of(problem.units)
        problem = problem.with_host(memory, moved * TICKS_PER_SECOND // ticks)
    return problem


def goal_of(changes: Mapping[str, Any]) -> Goal:
    """Return what is asked of a file, from changes by name."""
    from milp_plan.io.goal import Goal

    return Goal(
        objective_of(changes, Objective),
        bool(changes.get("contiguous")),
        bool(changes.get("separate_passes")),
        changes.get("calls"),
    )


def _fastest(problem: PlanningProblem, operator: str) -> int:
    places = problem.unlike_placements(operator)
    return min((problem.duration_ticks(operator, place) for place in places), default=0)


def _law(law: SerialLaw) -> str:
    calls = "" if law.calls is None else f", at most {law.calls} calls each"
    how = f"contiguity {law.contiguity}, passes {law.passes}{calls}"
    return f"{', '.join(law.payers)} pay for transfers; {how}"


def _devices(problem: PlanningProblem) -> str:
    alike = Counter((entry.device_class, entry.memory_bytes) for entry in problem.cluster.devices)
    texts = []
    for (name, memory), number in alike.items():
        room = "no memory limit" if memory is None else f"{size_text(problem.units, memory)} each"
        texts.append(f"{number} x {name} ({room})")
    return ", ".join(texts)


KIND = Schedule()
