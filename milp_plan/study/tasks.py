"""The runs of a suite: their settings, and the keys of their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.io.defects import nearest
from milp_plan.io.files import Document, read_document
from milp_plan.io.suite_file import Suite, SuiteEntry, SuitePlanner, SuiteVariation, plain
from milp_plan.run.key import run_key
from milp_plan.run.kinds import AnyKind, kinds, read_whole


@dataclass(frozen=True)
class Source:
    """The source of a run's problem: a file, which is sent with the run, and its variation.

    Parameters
    ----------
    file
        Name of the file; some formats name their problems after it.
    data
        Content of the file.
    changes
        Changes of the problem as it is read; see :attr:`milp_plan.run.kind.Kind.changes`.
    fingerprint
        Fingerprint of the problem.
    """

    file: str
    data: bytes = field(repr=False)
    changes: Mapping[str, Any]
    fingerprint: str


@dataclass(frozen=True)
class Task:
    """One run.

    Parameters
    ----------
    title
        Name in progress reports.
    about
        Plain data that its record begins with, and tables show.
    asked
        Plain data: everything the answer may depend on beside the problem and the sources; ``work``
        says what is done: ``"solve"``, ``"heuristic"`` or ``"measure"``.
    key
        SHA-256 over problem, ``asked``, the sources that plan and the versions of packages.
    source
        The problem; ``None`` for a measurement.
    """

    title: str
    about: Mapping[str, Any]
    asked: Mapping[str, Any]
    key: str
    source: Source | None = None

    @property
    def description(self) -> dict[str, Any]:
        """First members of its record, as plain data."""
        return {**self.about, "asked": dict(self.asked)}


@dataclass(frozen=True)
class Missing:
    """An instance that cannot be run.

    Parameters
    ----------
    label, variation
        Name of the instance and its variation; empty where it does not matter.
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
    """Read every instance in every variation, and return the runs.

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
        try:
            document = document_of(entry)
        except InputError as error:
            missing.append(Missing(entry.label, "", _said(error), False))
            continue
        for variation in suite.content.variations:
            if not variation.wants(entry.label):
                continue
            try:
                tasks += _tasks(suite, entry, variation, document, hashes)
            except InputError as error:
                missing.append(Missing(entry.label, variation.name, _said(error), False))
    return Expansion(suite, tuple(tasks), tuple(missing))


def document_of(entry: SuiteEntry) -> Document:
    """Return the file of an entry, or the instance of its recipe as a file.

    Raises
    ------
    InputError
        It cannot be read, or the recipe asks for what there is not.
    """
    recipe = entry.recipe
    if recipe is None:
        return read_document(entry.path)
    from milp_plan.io.cluster_file import cluster_of
    from milp_plan.io.native import to_json
    from milp_plan.zoo import generate

    arguments = plain(recipe)
    problem = generate(
        arguments.pop("architecture"), cluster_of(arguments.pop("cluster")), **arguments
    )
    return Document(entry.path, to_json(problem))


def _said(error: InputError) -> str:
    return "; ".join(
        f"{finding.where}: found {finding.found}, expected {finding.expected}"
        for finding in error.findings
    )


def _tasks(
    suite: Suite,
    entry: SuiteEntry,
    variation: SuiteVariation,
    document: Document,
    hashes: Mapping[str, str | None],
) -> Iterable[Task]:
    kind, problem = read_whole(document, variation.asked)
    source = Source(document.file, document.data, variation.asked, problem.fingerprint)
    about = {"file": entry.label, "variation": variation.name, **about_of(kind, problem)}
    for who in suite.content.planners:
        if who.variations and variation.name not in who.variations:
            continue
        for seed in suite.content.seeds:
            settings = _asked(suite, variation, who, seed)
            file_hash = hashes[who.name]
            counted = {**settings, "formulation": file_hash or settings.get("formulation")}
            key = run_key(problem.name, problem.fingerprint, counted, file_hash)
            parts = [problem.name, variation.name, who.name, f"seed {seed}"]
            title = ", ".join(part for part in parts if part)
            yield Task(title, {**about, "who": who.name}, settings, key, source)


def about_of(kind: AnyKind, problem: Any) -> dict[str, Any]:
    """Return plain data on a problem of any kind and on its units."""
    measure = kind.measure(problem)
    return {
        "kind": kind.name,
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": measure.objective,
        "unit": measure.unit,
        "ticks_per_unit": measure.per_unit,
        **kind.summary(problem),
    }


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
        "only": who.only,
    }


def _formulation(suite: Suite, who: SuitePlanner) -> str:
    """Return a name, or the path to a file or package, relative to the suite."""
    from milp_plan.models.registry import is_path

    if not is_path(who.formulation):
        return who.formulation
    return str(suite.path.absolute().parent / who.formulation)


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
    known = [name for kind in kinds() for name in kind.heuristics()]
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
        formulation = get(_formulation(suite, who))
    except FormulationError as error:
        raise _UnknownError(str(error)) from None
    make_options(formulation, who.options)
    return formulation.file_hash
