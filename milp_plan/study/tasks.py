"""The runs of a suite: what each is asked, and the key its result is stored by."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from milp_plan.core import Contiguity, Finding, InputError, Passes, PlanningProblem
from milp_plan.io import read
from milp_plan.io.defects import nearest
from milp_plan.io.native import to_json
from milp_plan.io.suite_file import Suite, SuiteEntry, SuitePlanner, SuiteVariation
from milp_plan.run.identity import installed, sources


@dataclass(frozen=True)
class Task:
    """One run.

    Parameters
    ----------
    title
        What progress calls it.
    about
        Plain data that its record begins with, and tables show.
    asked
        Plain data: everything the answer may depend on beside the problem and the sources; ``work``
        says what is done: ``"solve"``, ``"heuristic"`` or ``"measure"``.
    key
        SHA-256 over problem, ``asked`` and :func:`sources`.
    document
        The problem in the native format, compressed; empty where there is none.
    """

    title: str
    about: Mapping[str, Any]
    asked: Mapping[str, Any]
    key: str
    document: bytes = field(default=b"", repr=False)

    @property
    def description(self) -> dict[str, Any]:
        """Plain data that a record begins with."""
        return {**self.about, "asked": dict(self.asked)}


@dataclass(frozen=True)
class Missing:
    """An instance that cannot be run.

    Parameters
    ----------
    label, variation
        Which; the variation is empty where it does not matter.
    reason
        Why: it is absent, or not what its format says.
    harmless
        The suite says that it may be absent.
    """

    label: str
    variation: str
    reason: str
    harmless: bool


@dataclass(frozen=True)
class Expansion:
    """All runs of a suite, and the instances that cannot be run.

    Runs may share a key (scaling a memory without limit changes nothing): they are done once.
    """

    suite: Suite
    tasks: tuple[Task, ...]
    missing: tuple[Missing, ...]


def expand(suite: Suite) -> Expansion:
    """Read every instance in every variation, and list the runs.

    Raises
    ------
    InputError
        A planner, formulation or option does not exist; with every finding.
    """
    hashes = _check_planners(suite)
    tasks: list[Task] = []
    missing: list[Missing] = []
    for entry in suite.entries:
        if entry.absent:
            missing.append(Missing(entry.label, "", f"absent: {entry.absent}", entry.optional))
            continue
        for variation in suite.content.variations:
            if not variation.wants(entry.label):
                continue
            try:
                problem = variation.apply(read(entry.path, variation.goal))
            except InputError as error:
                said = "; ".join(
                    f"{finding.where}: found {finding.found}, expected {finding.expected}"
                    for finding in error.findings
                )
                missing.append(Missing(entry.label, variation.name, said, False))
                continue
            tasks += _tasks(suite, entry, variation, problem, hashes)
    return Expansion(suite, tuple(tasks), tuple(missing))


def _tasks(
    suite: Suite,
    entry: SuiteEntry,
    variation: SuiteVariation,
    problem: PlanningProblem,
    hashes: Mapping[str, str | None],
) -> Iterable[Task]:
    about = {"file": entry.label, "instance": problem.name, "variation": variation.name}
    about |= _about(problem)
    packed = gzip.compress(to_json(problem), mtime=0)
    for who in suite.content.planners:
        if who.variations and variation.name not in who.variations:
            continue
        for seed in suite.content.seeds:
            asked = _asked(suite, variation, who, seed)
            key = task_key(problem.name, problem.fingerprint, asked, hashes[who.name])
            parts = [problem.name, variation.name, who.name, f"seed {seed}"]
            title = ", ".join(part for part in parts if part)
            yield Task(title, {**about, "who": who.name}, asked, key, packed)


def _asked(suite: Suite, variation: SuiteVariation, who: SuitePlanner, seed: int) -> dict[str, Any]:
    limits = suite.content.limits
    asked: dict[str, Any] = {
        "work": "solve" if who.planner is None else "heuristic",
        "seed": seed,
        "time_limit_s": who.time or variation.time or limits.time,
        "grace_s": limits.grace,
        "threads": limits.threads,
        "gap": limits.gap,
    }
    if who.planner is not None:
        return asked | {"planner": who.planner}
    return asked | {
        "formulation": _formulation(suite, who),
        "options": dict(who.options),
        "target": who.target,
        "rounds": who.rounds,
        "node_limit": who.node_limit,
        "solver": who.solver,
    }


def _formulation(suite: Suite, who: SuitePlanner) -> str:
    """Name, or the path to a file or package, seen from the suite."""
    from milp_plan.models.registry import is_path

    if not is_path(who.formulation):
        return who.formulation
    return str(suite.path.absolute().parent / who.formulation)


def task_key(name: str, fingerprint: str, asked: Mapping[str, Any], file_hash: str | None) -> str:
    """SHA-256 over a problem, what is asked, the sources, and the file that ``asked`` names."""
    file = {"formulation": file_hash} if file_hash and "formulation" in asked else {}
    content = [name, fingerprint, {**asked, **file}, file_hash, sources(), installed()]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _about(problem: PlanningProblem) -> dict[str, Any]:
    law = problem.serial
    return {
        "fingerprint": problem.fingerprint,
        "objective": problem.objective.value,
        "contiguous": law is not None and law.contiguity is Contiguity.CHAIN,
        "separate_passes": law is not None and law.passes is Passes.SEPARATE,
        "calls": None if law is None else law.calls,
        "units": {
            "time": problem.units.time,
            "size": problem.units.size,
            "time_scale": problem.units.time_scale,
        },
        "operators": len(problem.graph.operators),
        "values": len(problem.graph.values),
        "devices": len(problem.cluster.devices),
    }


def _check_planners(suite: Suite) -> dict[str, str | None]:
    """Return the file hash of each planner's formulation; refuse what does not exist."""
    findings: list[Finding] = []
    hashes: dict[str, str | None] = {}
    for place, who in enumerate(suite.content.planners):
        where = f"planners[{place}]"
        hashes[who.name] = None
        if who.planner is not None:
            findings += _unknown_heuristic(f"{where}.planner", who.planner)
        elif who.formulation != "auto" or who.options:
            try:
                hashes[who.name] = _formulation_hash(suite, who)
            except InputError as error:
                findings += [
                    Finding(f"{where}.options, {f.where}", f.found, f.expected, f.remedy)
                    for f in error.findings
                ]
            except _UnknownError as error:
                known = "a formulation that `milp-plan list formulations` shows, or a .py file"
                findings.append(
                    Finding(f"{where}.formulation", str(error), known, "choose one of these")
                )
    if findings:
        raise InputError(findings).in_file(str(suite.path))
    return hashes


class _UnknownError(Exception):
    """A formulation that does not load."""


def _unknown_heuristic(where: str, name: str) -> list[Finding]:
    from milp_plan.planners import PLANNERS
    from milp_plan.planners.experts import EXPERTS

    known = [*PLANNERS, *EXPERTS]
    if name in known:
        return []
    remedy = nearest(name, known, "milp-plan list planners shows all")
    return [Finding(where, repr(name), "the name of a heuristic", remedy)]


def _formulation_hash(suite: Suite, who: SuitePlanner) -> str | None:
    from milp_plan.core import FormulationError
    from milp_plan.models.registry import get
    from milp_plan.run.model import make_options

    if who.formulation == "auto":
        expected = "options of a formulation that is named"
        raise InputError([Finding("auto", "options", expected, "name the formulation")])
    try:
        found = get(_formulation(suite, who))
    except FormulationError as error:
        raise _UnknownError(str(error)) from None
    make_options(found, who.options)
    return found.file_hash
