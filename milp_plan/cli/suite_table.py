"""``table FOLDER`` with a spec: run its suite, write our figures next to published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.io.spec_file import Spec, read_spec, suite_of, unmatched

from . import interrupts
from .bench import (
    SuiteRuns,
    check_known,
    code_of_runs,
    known_path,
    note_missing,
    open_suite,
)
from .exits import Exit, most_serious
from .output import note, say
from .study_part import stored_results

SPEC, TABLE, RESULTS, SHEET = "spec.toml", "table.md", "table.json", "table.csv"


def make_suite_table(folder: Path, runs: SuiteRuns, *, render: bool) -> Exit:
    """Do what is left of the suite (or read what was written), and write the table.

    Raises
    ------
    InputError
        Spec or suite are not what their format says, or there is nothing to render.
    """
    spec = read_spec(folder / SPEC)
    if render:
        _write(folder, spec, stored_results(folder / RESULTS, ("rows", "versions", "suite")))
        return Exit.DONE
    from milp_plan.run.identity import installed, sources
    from milp_plan.study.rows import rows_of
    from milp_plan.study.standings import with_rivals

    expansion, store = open_suite(suite_of(spec, folder / SPEC), runs.store_folder)
    _check(spec, folder, [who.name for who in expansion.suite.content.planners])
    note_missing(expansion)
    state = runs.all_of(expansion.tasks)
    if state.left or state.stopped:
        note(f"{state.left + state.stopped} runs are left; the table is as it was")
        return interrupts.code()
    every = rows_of(expansion, store)
    rows = with_rivals(spec, every)
    for name, variation in unmatched(spec, {(r["instance"], r["variation"]) for r in rows}):
        note(f"published figures of {name}, {variation or 'as it is'}, belong to no run")
    made = {"versions": installed(), "sources": sources(), "suite": expansion.suite.name}
    content = {**made, "rows": rows}
    _write(folder, spec, content)
    code = check_known(every, known_path(expansion, None))
    return most_serious([code, code_of_runs(expansion, store)])


def _check(spec: Spec, folder: Path, planners: list[str]) -> None:
    """Refuse planners that the suite does not have."""
    named = [("ours", name) for name in spec.ours]
    named += [
        ("columns", column.partition(":")[2])
        for column in spec.columns
        if column.startswith("planner:")
    ]
    findings = [
        Finding(where, repr(name), f"a planner of the suite: {planners}", "correct the name")
        for where, name in named
        if name not in planners
    ]
    if findings:
        raise InputError(findings).in_file(str(folder / SPEC))


def _write(folder: Path, spec: Spec, content: Mapping[str, Any]) -> None:
    from milp_plan.io.files import write_atomic
    from milp_plan.report.suite_table import suite_csv, suite_markdown
    from milp_plan.study.rows import COLUMNS

    rows = content["rows"]
    page = suite_markdown(
        spec.title,
        spec.about,
        rows,
        columns=spec.columns,
        headings=spec.headings,
        group=spec.group,
        digits=spec.digits,
        notes=spec.notes,
        command=f"milp-plan table {folder.as_posix()}",
        provenance=_provenance(content),
    )
    text = json.dumps(content, indent=1) + "\n"
    for name, data in ((RESULTS, text), (SHEET, suite_csv(rows, COLUMNS)), (TABLE, page)):
        write_atomic(folder / name, data.encode())
    say(str(folder / TABLE))


def _provenance(content: Mapping[str, Any]) -> str:
    """Limits and versions in a line."""
    runs = [row for row in content["rows"] if row["time_limit_s"] is not None]
    limits = sorted({row["time_limit_s"] for row in runs})
    threads = sorted({row["threads"] for row in runs})
    seconds = " or ".join(f"{limit:g}" for limit in limits)
    count = " or ".join(f"{number}" for number in threads)
    versions = ", ".join(
        f"{name} {version}" for name, version in content["versions"].items() if version
    )
    return (
        f"Suite `{content['suite']}`; at most {seconds} s per run, {count} solver thread(s). "
        f"Made with {versions}."
    )
