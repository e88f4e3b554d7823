"""``table FOLDER`` with a study: measure its cases, write page and figures."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import BackendUnavailableError
from milp_plan.io.study_file import Study, published_rows, read_study

from .exits import Exit
from .output import note, say
from .study_part import Part, other_results, stored_results

if TYPE_CHECKING:
    from .bench import SuiteRuns

STUDY, TABLE, RESULTS = "study.toml", "table.md", "table.json"


def make_study(folder: Path, runs: SuiteRuns, part: Part, *, render: bool) -> Exit:
    """Measure the missing cases of a study (or read stored ones), and write its page and figures.

    A script may have ``present(rows)``, which returns what the page's texts and tables name
    in addition to the rows; ``figures(rows)``, file name -> figure; and ``complaints(rows)``,
    sentences on what contradicts the page's claims, with which the command ends with 7.

    Results are those of the requested ``part``, and so is the page.

    Raises
    ------
    InputError
        The study is not what its format says, or there is nothing to render.
    """
    from milp_plan.draw.canvas import write_figure
    from milp_plan.io.files import write_atomic
    from milp_plan.report.pages import study_page
    from milp_plan.run.identity import installed
    from milp_plan.study.measured import load, tasks_of

    study, script = read_study(folder / STUDY)
    cases = part.of(study.all_cases())
    unlabelled = [{k: v for k, v in case.items() if k not in study.labels} for case in cases]
    if render:
        made = _stored(folder / RESULTS, unlabelled)
    else:
        done = runs.rows_of(tasks_of(folder.name, str(script), unlabelled, study.limits))
        if isinstance(done, Exit):
            return done
        machine = {"system": platform.system(), "processor": platform.machine()}
        rows = [{**case, **row} for case, row in zip(unlabelled, done, strict=True)]
        made = {"versions": installed(), "machine": machine, "rows": rows}
        write_atomic(folder / RESULTS, json.dumps(made, indent=1).encode() + b"\n")
    rows = [{**case, **row} for case, row in zip(cases, made["rows"], strict=True)]
    _join(study, folder, rows)
    module = load(str(script))
    facts = module.present(rows) if hasattr(module, "present") else {}
    page = study_page(
        study.title,
        study.about,
        study.tables,
        {"": rows, **facts},
        facts,
        command=f"milp-plan table {folder.as_posix()}{part.options}",
        made=made,
    )
    write_atomic(folder / TABLE, page.encode())
    say(str(folder / TABLE))
    try:
        for name, figure in (module.figures(rows) if hasattr(module, "figures") else {}).items():
            write_figure(figure, folder / name)
    except BackendUnavailableError as error:
        note(f"{folder}: figures are not drawn: {error}")
    wrong = module.complaints(rows) if hasattr(module, "complaints") else []
    for text in wrong:
        note(f"contradiction: {text}")
    return Exit.NOT_VALID if wrong else Exit.DONE


def _stored(path: Path, cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Read measurements: a row for each case, which begins with the case."""
    made: dict[str, Any] = stored_results(path, ("rows", "versions"))
    if len(made["rows"]) != len(cases):
        raise other_results(path, f"{len(made['rows'])} results for {len(cases)} cases")
    for place, (row, case) in enumerate(zip(made["rows"], cases, strict=True), 1):
        if any(row.get(name) != member for name, member in case.items()):
            raise other_results(path, f"result {place} of another case")
    return made


def _join(study: Study, folder: Path, rows: list[dict[str, Any]]) -> None:
    """Add the published figures of its case to each row, if there are any."""
    if study.published_file is None:
        return
    published = published_rows(study, folder)
    for row in rows:
        key = tuple(str(row[name]) for name in study.published_by)
        row["published"] = published.get(key, {})
