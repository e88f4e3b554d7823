"""Suites as TOML: instances, variations, methods, and time limits.

Described in ``instances/formats/suite.md``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from milp_plan.core import Finding, InputError, Objective

from .cluster_file import SUFFIX
from .defects import nearest
from .files import read_document
from .goal import Goal
from .pipeline_file import decode_toml
from .wire import Positive, PositiveSetting, Setting, Strict

Seconds = Annotated[float, msgspec.Meta(gt=0)]
_LONGEST_NAME = 255
"""Maximum bytes of a file name in file systems; much longer patterns take minutes to match."""

_WILD = frozenset("*?[")


class SuiteGroup(Strict):
    """Files of one folder; see :class:`SuiteFile` for the members."""

    files: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    folder: str = "."
    variable: str | None = None
    remedy: str | None = None
    optional: bool | None = None


class SuiteRecipe(Strict):
    """An instance that is generated; members as for :func:`milp_plan.zoo.generate`."""

    name: str
    architecture: str
    cluster: str
    mode: Literal["training", "inference"] = "training"
    batch: Positive = 8
    micro_batches: Positive = 1
    granularity: str = "fine"
    memory_scale: str = "1"
    options: tuple[str, ...] = ()
    optimizer: str = "adam"
    communication: Literal["channel", "endpoint", "delay"] | None = None
    link: str | None = None

    def seen_from(self, suite: Path) -> SuiteRecipe:
        """Return it with the file of its cluster, if it names one, relative to the suite's file."""
        if not self.cluster.endswith(SUFFIX):
            return self
        return msgspec.structs.replace(self, cluster=str(above(suite, self.cluster)))


class SuiteVariation(Strict):
    """Changes of a problem; ``only`` has patterns of the files they are for.

    ``changes`` are those of kinds of problems that have other ones (``devices``, ``memory``).
    """

    name: str
    objective: Literal["makespan", "span", "bottleneck", "peak_memory", "latency"] | None = None
    contiguous: bool = False
    separate_passes: bool = False
    calls: Positive | None = None
    memory_scale: str | None = None
    changes: dict[str, bool | int | float] = msgspec.field(default_factory=dict)
    time: Seconds | None = None
    only: tuple[str, ...] = ()

    @property
    def goal(self) -> Goal:
        """Changes of a problem that its file describes."""
        objective = None if self.objective is None else Objective(self.objective)
        return Goal(objective, self.contiguous, self.separate_passes, self.calls)

    @property
    def asked(self) -> dict[str, Any]:
        """Changes of an instance as it is read, by the names of its kind."""
        names = ("objective", "contiguous", "separate_passes", "calls", "memory_scale")
        asked = {**{name: getattr(self, name) for name in names}, **self.changes}
        return {name: change for name, change in asked.items() if change not in (None, False)}

    def wants(self, label: str) -> bool:
        """Return whether a file is run in this variation."""
        return not self.only or any(fnmatchcase(label, pattern) for pattern in self.only)


class SuitePlanner(Strict):
    """A method: both stages with a formulation, or only the heuristic ``planner``."""

    name: str
    planner: str | None = None
    formulation: str = "auto"
    options: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)
    target: PositiveSetting | None = None
    rounds: Setting | None = None
    node_limit: PositiveSetting | None = None
    solver: str = "highs"
    only: bool = False
    time: Seconds | None = None
    variations: tuple[str, ...] = ()


class SuiteLimits(Strict):
    """Limits of a run: ``time`` seconds, and ``grace`` more before its process is killed."""

    time: Seconds = 60.0
    threads: PositiveSetting = 1
    gap: Annotated[float, msgspec.Meta(ge=0)] = 1e-4
    grace: Seconds = 30.0


class SuiteFile(Strict):
    """A suite, member by member as in its file."""

    title: str
    about: str = ""
    files: tuple[str, ...] = ()
    folder: str = "."
    variable: str | None = None
    remedy: str | None = None
    optional: bool | None = None
    instances: tuple[SuiteGroup, ...] = ()
    recipes: tuple[SuiteRecipe, ...] = ()
    variations: tuple[SuiteVariation, ...] = msgspec.field(
        default_factory=lambda: (SuiteVariation(""),)
    )
    planners: Annotated[tuple[SuitePlanner, ...], msgspec.Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: (SuitePlanner("auto"),)
    )
    seeds: Annotated[tuple[Setting, ...], msgspec.Meta(min_length=1)] = (0,)
    limits: SuiteLimits = msgspec.field(default_factory=SuiteLimits)
    known: str | None = None


@dataclass(frozen=True)
class SuiteEntry:
    """One instance of a suite.

    Parameters
    ----------
    label
        The file as tables name it, without the folder of this machine.
    path
        Path of its file, or the path that it would have.
    absent
        Why it cannot be solved; empty for a file that is there.
    optional
        Whether it may be missing without an error.
    recipe
        Recipe by which it is generated; ``None`` for a file.
    """

    label: str
    path: Path
    absent: str = ""
    optional: bool = False
    recipe: SuiteRecipe | None = None

    @property
    def stem(self) -> str:
        """File name without its suffixes."""
        return self.path.name.removesuffix(".gz").removesuffix(".json")


@dataclass(frozen=True)
class Suite:
    """A suite with its files on this machine.

    Parameters
    ----------
    name
        Name of the file, without ``.toml``.
    path
        Path of the suite's file.
    content
        Content of the file.
    entries
        The instances, present or missing, each once.
    """

    name: str
    path: Path
    content: SuiteFile
    entries: tuple[SuiteEntry, ...]


def read_suite(path: str | Path) -> Suite:
    """Read a suite and find its instances.

    Raises
    ------
    InputError
        With every defect of the file. An instance that is absent is none: its entry says so.
    """
    document = read_document(path, "a suite (TOML)")
    suite = decode_toml(document, SuiteFile)
    findings = list(_findings(suite))
    if findings:
        raise InputError(findings).in_file(document.file)
    source = Path(path)
    entries = dict.fromkeys(
        entry
        for group in _groups(suite)
        for pattern in group.files
        for entry in _entries(group, pattern, source)
    )
    made = [
        SuiteEntry(f"{entry.name}.json", Path(f"{entry.name}.json"), recipe=entry.seen_from(source))
        for entry in suite.recipes
    ]
    return Suite(source.name.removesuffix(".toml"), source, suite, (*entries, *made))


def above(path: Path, name: str) -> Path:
    """Return the absolute form of a path that a file names.

    That is: seen from its own folder or, where nothing is there, from the nearest folder above it
    from which there is something; its own folder if there is none.
    """
    own = path.absolute().parent
    for folder in (own, *own.parents):
        if (folder / name).exists():
            return folder / name
    return own / name


def _groups(suite: SuiteFile) -> tuple[SuiteGroup, ...]:
    if not suite.files:
        return suite.instances
    first = SuiteGroup(suite.files, suite.folder, suite.variable, suite.remedy, suite.optional)
    return (first, *suite.instances)


def _entries(group: SuiteGroup, pattern: str, source: Path) -> Iterator[SuiteEntry]:
    """Yield the files of a pattern; missing files are entries as well."""
    chosen = os.environ.get(group.variable) if group.variable else None
    folder = Path(chosen) if chosen else above(source, group.folder)
    optional = group.variable is not None if group.optional is None else group.optional
    if Path(pattern).is_absolute():
        files = [Path(pattern)] if Path(pattern).is_file() else []
    elif _WILD & set(pattern):
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
    else:
        files = [folder / pattern] if (folder / pattern).is_file() else []
    for path in files:
        inside = path.is_relative_to(folder) and not Path(pattern).is_absolute()
        label = path.relative_to(folder).as_posix() if inside else path.name
        yield SuiteEntry(label, path, "", optional)
    if not files:
        where = f"the folder that {group.variable} names" if chosen else group.folder
        ways = [] if group.remedy is None else [group.remedy]
        if group.variable and not chosen:
            ways.append(f"set {group.variable} to their folder")
        label = Path(pattern).name if Path(pattern).is_absolute() else pattern
        yield SuiteEntry(label, folder / pattern, "; ".join([f"not in {where}", *ways]), optional)


def _long_names(suite: SuiteFile) -> Iterator[Finding]:
    for group in _groups(suite):
        for text in (group.folder, *group.files):
            if any(len(part.encode(errors="replace")) > _LONGEST_NAME for part in text.split("/")):
                expected = f"names of at most {_LONGEST_NAME} bytes"
                yield Finding("files", f"a name {text[:20]!r}...", expected, "correct the name")


def _findings(suite: SuiteFile) -> Iterator[Finding]:
    """Report defects that the schema cannot express."""
    if not suite.files and not suite.instances and not suite.recipes:
        expected = "files, instances, or recipes"
        yield Finding("files", "nothing", expected, "name at least one instance")
    yield from _long_names(suite)
    for member, names in (
        ("recipes", [entry.name for entry in suite.recipes]),
        ("variations", [entry.name for entry in suite.variations]),
        ("planners", [entry.name for entry in suite.planners]),
    ):
        for name in _repeated(names):
            found = f"{names.count(name)} entries of the name {name!r}"
            yield Finding(member, found, "a name of its own for each", "rename one")
    for place, entry in enumerate(suite.variations):
        for finding in entry.goal.findings():
            yield Finding(
                f"variations[{place}], {finding.where.lstrip('-').replace('-', '_')}",
                finding.found,
                finding.expected,
                finding.remedy,
            )
        if entry.memory_scale is not None and not _positive(entry.memory_scale):
            expected = 'a positive number as text, such as "0.8" or "4/5"'
            where = f"variations[{place}].memory_scale"
            yield Finding(where, repr(entry.memory_scale), expected, "correct it")
    known = [entry.name for entry in suite.variations]
    for place, who in enumerate(suite.planners):
        for name in who.variations:
            if name not in known:
                remedy = nearest(name, known, "leave it out, or add the variation")
                expected = f"one of {known}"
                yield Finding(f"planners[{place}].variations", repr(name), expected, remedy)
        if who.planner is not None and (who.formulation != "auto" or who.options):
            expected = "a heuristic, or a formulation with options"
            yield Finding(f"planners[{place}]", "both", expected, "leave one of them out")


def _repeated(names: Iterable[str]) -> list[str]:
    seen = list(names)
    return [name for name in dict.fromkeys(seen) if seen.count(name) > 1]


def _positive(text: str) -> bool:
    try:
        return Fraction(text) > 0
    except (ValueError, ZeroDivisionError):
        return False


def plain(item: msgspec.Struct) -> dict[str, Any]:
    """Return a member of a suite as plain data, defaults included."""
    names = type(item).__struct_fields__
    return {name: msgspec.to_builtins(getattr(item, name)) for name in names}
