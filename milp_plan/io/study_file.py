"""Studies as TOML: a script measured on a list of cases, and the page about it.

Described in ``instances/formats/study.md``.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from milp_plan.core import Finding, InputError

from .csv_text import csv_records
from .files import read_document
from .pipeline_file import decode_toml
from .suite_file import SuiteLimits, above
from .wire import Count, Strict

Case = dict[str, Any]


class StudyTable(Strict):
    """A table of the page: pairs of a heading and a format of a row's members.

    ``rows`` names what the script's ``present`` returned; without it, a row per case. ``group`` is
    the member that makes sections, ``text`` stands above each section's table.
    """

    columns: Annotated[tuple[tuple[str, str], ...], msgspec.Meta(min_length=1)]
    heading: str = ""
    rows: str = ""
    group: str = ""
    text: str = ""
    before: str = ""
    after: str = ""
    left: Count = 1


class Study(Strict):
    """Cases that are measured, and tables that are shown.

    ``cases`` and every combination of each of ``grids``, with the members of ``common``, are handed
    to the script, but for the members in ``labels``, which the page alone needs.
    """

    title: str
    about: str
    script: str
    tables: tuple[StudyTable, ...]
    cases: tuple[Case, ...] = ()
    grids: tuple[dict[str, list[Any]], ...] = ()
    common: Case = msgspec.field(default_factory=dict)
    labels: tuple[str, ...] = ()
    limits: SuiteLimits = msgspec.field(default_factory=lambda: SuiteLimits(time=3600.0))
    published_file: str | None = None
    published_by: tuple[str, ...] = ()

    def all_cases(self) -> list[Case]:
        """Return every case, in order."""
        crossed = [
            dict(zip(grid, chosen, strict=True))
            for grid in self.grids
            for chosen in product(*grid.values())
        ]
        return [{**self.common, **case} for case in (*self.cases, *crossed)]


def read_study(path: str | Path) -> tuple[Study, Path]:
    """Read a study and find its script, relative to its folder or the nearest one above.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    document = read_document(path, "a study (TOML)")
    study = decode_toml(document, Study)
    findings: list[Finding] = []
    script = above(Path(path), study.script)
    if not script.is_file():
        findings.append(Finding("script", repr(study.script), "a file", "correct the path"))
    if not study.all_cases():
        findings.append(Finding("cases", "nothing", "cases, or grids", "name at least one"))
    if findings:
        raise InputError(findings).in_file(document.file)
    return study, script


def published_rows(study: Study, folder: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """Return published figures by the members that name a case; lines with # are notes.

    What is empty is left out.

    Raises
    ------
    InputError
        The file is not there, or a member that names a case is none of its columns.
    """
    if study.published_file is None:
        return {}
    path = folder / study.published_file
    what = "published figures (CSV)"
    lines = read_document(path, what).data.decode().splitlines(keepends=True)
    text = "".join("\n" if line.startswith("#") else line for line in lines)
    rows = list(csv_records(text, what, str(path)))
    absent = [name for name in study.published_by if any(name not in row for row in rows)]
    if absent:
        finding = Finding("columns", f"none named {absent[0]!r}", "one", "add it", str(path))
        raise InputError([finding])
    return {
        tuple(row[name] for name in study.published_by): {k: v for k, v in row.items() if v}
        for row in rows
    }
