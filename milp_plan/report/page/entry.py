"""The input of a report on one run: its record, its instance, and its plan, checked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Finding, InputError, Verdict
from milp_plan.io.record_file import read_record
from milp_plan.run.kinds import changes_from_text, kind_of, read, read_plan

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.kind import Kind

RECORD_SUFFIX, PLAN_SUFFIX = ".json", ".plan.json"


@dataclass(frozen=True)
class Entry:
    """One run of a report.

    Parameters
    ----------
    name
        Name of the run on the page.
    record
        The record of the run.
    kind, problem
        ``None`` for a run without a plan.
    verdict, explanation, panels
        Verdict, explanation and panels of the plan, if there is one.
    """

    name: str
    record: dict[str, Any]
    kind: Kind[Any, Any] | None = None
    problem: Any = None
    verdict: Verdict | None = None
    explanation: str = ""
    panels: Sequence[Panel] = ()


def read_entry(path: Path, instances: Iterable[Path] = ()) -> Entry:
    """Read a record, its plan and its instance, and check the plan.

    Parameters
    ----------
    path
        The record. Its plan is ``NAME.plan.json`` beside ``NAME.json``.
    instances
        Folders in which to search for an instance that is not where the record says.

    Raises
    ------
    InputError
        It is no record; or its plan or its instance is missing, or another one than the record's.
    """
    record = read_record(path)
    key = path.name.removesuffix(RECORD_SUFFIX)
    name = str(record.get("title", key))
    if record["value"] is None:
        return Entry(name, record)
    plan_file = path.with_name(key + PLAN_SUFFIX)
    if not plan_file.is_file():
        found, remedy = "no such file", "put the plan next to its record, or solve again"
        raise InputError(
            [Finding("plan", found, "the plan of this record", remedy, str(plan_file))]
        )
    kind, problem, instance_file = read_instance(path, record, tuple(instances))
    plan = read_plan(kind, plan_file, problem, instance_file)
    verdict = kind.verify(problem, plan)
    if verdict.value != record["value"]:
        found = f"{record['value']}, where the plan has {verdict.value}"
        remedy = "solve again: record or plan was changed"
        raise InputError([Finding("value", found, "the value of the plan", remedy, str(path))])
    try:
        panels = kind.panels(problem, plan)
    except InputError as error:
        raise error.in_file(str(plan_file)) from None
    return Entry(name, record, kind, problem, verdict, kind.explain(problem, plan, verdict), panels)


def read_instance(
    path: Path, record: dict[str, Any], instances: Sequence[Path] = ()
) -> tuple[Kind[Any, Any], Any, Path]:
    """Return the instance of a record, which has the same fingerprint.

    Parameters
    ----------
    path, record
        The record and its file.
    instances
        Folders in which to search for an instance that is not where the record says.

    Raises
    ------
    InputError
        It is not there, or has changed.
    """
    asked = changes_from_text(record.get("changes"), path)
    own = record.get("instance_file")
    candidates = [*instances, *([path.parent / own] if isinstance(own, str) else [])]
    others = []
    for candidate in candidates:
        if not candidate.is_file():
            others.append(f"{candidate} is not there")
            continue
        _, problem = read(candidate, asked)
        if problem.fingerprint == record["fingerprint"]:
            return kind_of(problem), problem, candidate
        others.append(f"{candidate} is another one, or changed")
    found = "; ".join(others) or "a record that does not say where"
    expected = f"the instance {record['instance']!r} that was solved"
    remedy = "name its file with --instance"
    raise InputError([Finding("instance_file", found, expected, remedy, str(path))])
