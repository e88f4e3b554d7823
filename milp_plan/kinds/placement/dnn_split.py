"""Splits of the device placement benchmark: which node runs on which accelerator or CPU.

The published planners and the human experts write such files: ``fpgas`` and ``cpus``, each a list
of parts with the ids of their nodes. See ``instances/formats/dnn-partitioning.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from milp_plan.core import Finding, InputError, OperatorRun, Plan, PlanningProblem
from milp_plan.io.files import Document, read_document
from milp_plan.io.wire import decode, lay_out
from milp_plan.kinds.schedule.formats import is_benchmark

from .dnn_partitioning import ACCELERATOR, CPU, Workload, names_of


class SplitPart(msgspec.Struct, frozen=True):
    """Nodes of one device; a claimed load is ignored."""

    nodes: list[int]


class Split(msgspec.Struct, frozen=True):
    """A split file."""

    fpgas: list[SplitPart]
    cpus: list[SplitPart] = []


def is_split(document: Document) -> bool:
    """Return whether the document has the members of a split."""
    return "fpgas" in document.top_level and "nodes" not in document.top_level


def read_split(document: Document, instance_file: str | Path, problem: PlanningProblem) -> Plan:
    """Read a split as a plan, without checking it against the laws.

    Parameters
    ----------
    document
        The split.
    instance_file
        Its instance: only that file knows the ids of nodes.
    problem
        The problem of that instance. For latency every part is call 0 of its accelerator.

    Raises
    ------
    InputError
        The instance is no file of the benchmark, or the split has defects: all of them.
    """
    split = decode(document.data, Split, document.file)
    names = _names(instance_file)
    findings = list(_findings(split, names))
    if findings:
        raise InputError(findings).in_file(document.file)
    call = 0 if problem.serial is not None and problem.serial.calls is not None else None
    host = None if call is None else f"{CPU}0"
    runs = [
        *_runs(split.fpgas, names, ACCELERATOR, call),
        *_runs(split.cpus, names, CPU, None, host),
    ]
    return Plan(problem.name, tuple(runs), planner=document.path.name)


def split_text(problem: PlanningProblem, plan: Plan, instance_file: str | Path) -> bytes:
    """Return a plan as a split.

    Raises
    ------
    InputError
        The instance is no file of the benchmark.
    """
    ids = {name: number for number, name in _names(instance_file).items()}

    def parts(kind: str) -> list[dict[str, object]]:
        devices = [d.name for d in problem.cluster.devices if d.device_class == kind]
        held = {name: [ids[r.operator] for r in plan.runs if name in r.devices] for name in devices}
        return [{"nodes": nodes} for nodes in held.values()]

    return lay_out({"fpgas": parts(ACCELERATOR), "cpus": parts(CPU)})


def _names(instance_file: str | Path) -> dict[int, str]:
    """Return node id -> operator name."""
    instance = read_document(instance_file)
    if not is_benchmark(instance):
        expected = "a dnn-partitioning file: a split names the ids of its nodes"
        raise InputError(
            [Finding("file", "another format", expected, "name that file", instance.file)]
        )
    return names_of(decode(instance.data, Workload, instance.file))


def _findings(split: Split, names: dict[int, str]) -> Iterator[Finding]:
    for member, parts in (("fpgas", split.fpgas), ("cpus", split.cpus)):
        for position, part in enumerate(parts):
            for number in part.nodes:
                if number not in names:
                    where = f"{member}[{position}].nodes"
                    yield Finding(where, f"unknown node {number}", "the id of a node", "correct it")


def _runs(
    parts: Sequence[SplitPart],
    names: dict[int, str],
    kind: str,
    call: int | None,
    device: str | None = None,
) -> Iterator[OperatorRun]:
    for position, part in enumerate(parts):
        for number in part.nodes:
            yield OperatorRun(names[number], "run", (device or f"{kind}{position}",), call=call)
