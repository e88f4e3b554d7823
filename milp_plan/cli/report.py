"""``report``: plans on a page that opens in a browser, from records of runs."""

from __future__ import annotations

from pathlib import Path

import click

from .inputs import PATH
from .output import note, say
from .outputs import Content, Output, refuse


@click.command()
@click.argument("records", metavar="RECORD...", type=PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, required=True, help="Page to write, .html.")
@click.option(
    "--instance",
    "instances",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Where the instance is, if not where the record says. Repeatable.",
)
def report(records: tuple[Path, ...], output: Path, instances: tuple[Path, ...]) -> None:
    """Write one HTML file about a run, or about several next to each other.

    RECORD is what `milp-plan solve` wrote (results/runs/KEY.json), with its plan next to it; naming
    the plan, or both, is the same. The page holds timelines with search and critical path, memory,
    utilisation, incumbent and bound over time, settings, and what the check says. It needs no
    network and no other file.
    """
    from milp_plan.io.files import write_document
    from milp_plan.report.page import read_entry, report_text
    from milp_plan.report.page.plots import need_bokeh

    refuse([Output("--output", output, Content.REPORT)], [*records, *instances])
    records = tuple(dict.fromkeys(map(_record_of, records)))
    entries = [read_entry(record, instances) for record in records]
    need_bokeh()
    for record, entry in zip(records, entries, strict=True):
        if entry.verdict is not None and not entry.verdict.ok:
            count = len(entry.verdict.violations)
            text = f"the plan is not valid ({count} violation{'' if count == 1 else 's'})"
            note(f"{record}: {text}, see the page")
    write_document(output, report_text(entries).encode())
    say(str(output))


def _record_of(path: Path) -> Path:
    """Return the record of a plan: ``runs/*.json`` matches both."""
    record = path.with_name(path.name.removesuffix(".plan.json") + ".json")
    return record if path.name.endswith(".plan.json") and record.is_file() else path
