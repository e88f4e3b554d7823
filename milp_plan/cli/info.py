"""``info``: what is in an instance file."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from milp_plan.core import InputError, PlanningProblem, SerialLaw
from milp_plan.core.amounts import size_text, time_text

from .exits import Exit, most_serious
from .inputs import PATH, Variation, instances, varied
from .output import complain, say, say_json, say_table
from .sharding import is_sharding, show_info


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@varied
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line and file.")
@click.pass_context
def info(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    variation: Variation,
    as_json: bool,
) -> None:
    """Say what is in an instance: graph, cluster, settings, where it comes from."""
    codes = [Exit.DONE]
    item: Any
    for _, item in instances(files, variation):
        if isinstance(item, InputError):
            complain(item)
            codes.append(Exit.BAD_INPUT)
        elif is_sharding(item):
            show_info(item, as_json=as_json)
        elif as_json:
            say_json(summary(item))
        else:
            _show(item)
    ctx.exit(most_serious(codes))


def summary(problem: PlanningProblem) -> dict[str, Any]:
    """Return the figures of a problem as plain data; ticks and bytes are exact."""
    graph, cluster = problem.graph, problem.cluster
    persistent = [value for value in graph.values if value.persistent]
    made = [value for value in graph.values if not value.persistent]
    options = [len(operator.options) for operator in graph.operators]
    return {
        "instance": problem.name,
        "objective": problem.objective.value,
        "memory_law": problem.memory_law.value,
        "communication": cluster.communication.value,
        "time_unit": problem.units.time,
        "size_unit": problem.units.size,
        "fingerprint": problem.fingerprint,
        "operators": len(graph.operators),
        "kinds": dict(Counter(operator.kind for operator in graph.operators)),
        "values": len(made),
        "persistent_values": len(persistent),
        "edges": sum(len(after) for after in graph.successors.values()),
        "depth": _depth(problem),
        "colocation_groups": len(graph.groups),
        "options_per_operator": {"least": min(options, default=0), "most": max(options, default=0)},
        "work_ns": sum(_fastest_ns(problem, operator.name) for operator in graph.operators),
        "persistent_bytes": sum(max(value.bytes.values()) for value in persistent),
        "made_bytes": sum(max(value.bytes.values()) for value in made),
        "devices": [
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
        "provenance": dict(problem.provenance),
    }


def _fastest_ns(problem: PlanningProblem, operator: str) -> int:
    return min(problem.duration_ns(operator, place) for place in problem.placements(operator))


def _depth(problem: PlanningProblem) -> int:
    """Operators on the longest path."""
    depth: dict[str, int] = {}
    for name in problem.graph.topological_order:
        before = problem.graph.predecessors[name]
        depth[name] = 1 + max((depth[other] for other in before), default=0)
    return max(depth.values(), default=0)


def _show(problem: PlanningProblem) -> None:
    facts, units = summary(problem), problem.units
    kinds = ", ".join(f"{count} {kind}" for kind, count in facts["kinds"].items())
    least, most = facts["options_per_operator"].values()
    options = str(least) if least == most else f"{least} to {most}"
    rows = [
        ["objective", facts["objective"]],
        ["memory law", facts["memory_law"]],
        ["operators", f"{facts['operators']:,} ({kinds})"],
        ["options per operator", options],
        ["colocation groups", f"{facts['colocation_groups']:,}"],
        ["values", f"{facts['values']:,} made, {facts['persistent_values']:,} persistent"],
        ["edges", f"{facts['edges']:,}"],
        ["longest path", f"{facts['depth']:,} operators"],
        ["work", f"{time_text(units, facts['work_ns'])} at every operator's fastest"],
        ["persistent bytes", size_text(units, facts["persistent_bytes"])],
        ["bytes made", size_text(units, facts["made_bytes"])],
        ["devices", _devices(problem)],
        ["communication", f"{facts['channels']:,} channels, model {facts['communication']}"],
        *([["serial law", _law(problem.serial)]] if problem.serial else []),
        ["process groups", f"{facts['process_groups']:,}"],
        *([f"from: {key}", text] for key, text in facts["provenance"].items()),
    ]
    say(problem.name)
    say_table(["", ""], rows)


def _law(law: SerialLaw) -> str:
    calls = "" if law.calls is None else f", at most {law.calls} calls each"
    how = f"contiguity {law.contiguity}, passes {law.passes}{calls}"
    return f"{', '.join(law.payers)} pay for transfers; {how}"


def _devices(problem: PlanningProblem) -> str:
    alike = Counter((entry.device_class, entry.memory_bytes) for entry in problem.cluster.devices)
    texts = []
    for (name, memory), count in alike.items():
        room = "no memory limit" if memory is None else f"{size_text(problem.units, memory)} each"
        texts.append(f"{count} x {name} ({room})")
    return ", ".join(texts)
