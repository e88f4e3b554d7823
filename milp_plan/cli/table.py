"""``table``: the overview of many runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from milp_plan.core import Finding, InputError

from .bench import SuiteRuns, refuse_jobs, refuse_run_options, stored
from .exits import Exit
from .inputs import PATH
from .limits import refuse_idle
from .output import complain, say
from .outputs import Content, Output, refuse
from .recipes import RECIPE, RESULTS
from .study_part import Part


@click.command()
@click.argument("recipe_folder", metavar="[RECIPE]", required=False, type=PATH)
@click.option(
    "--record-folder",
    type=PATH,
    default=Path("results/runs"),
    show_default=True,
    help="Where `milp-plan solve` wrote its records.",
)
@click.option("--all", "every", is_flag=True, help="Every run, not the latest of each problem.")
@click.option("-o", "--output", type=PATH, help="File to write instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of Markdown.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Cases of a RECIPE, or runs of its suite, at a time.",
)
@click.option("--render", is_flag=True, help="Write a RECIPE's table from its stored results.")
@click.option("--dask", metavar="ADDRESS", help="Dask scheduler that does the runs.")
@click.option(
    "--only",
    metavar="MEMBER=PATTERN",
    multiple=True,
    help="Cases of a study.toml like a pattern: 'file=*training*'; like all, if several.",
)
@click.option("--first", type=click.IntRange(min=1), help="Run at most N cases of a study.toml.")
@stored
@click.option("--quiet", is_flag=True, help="No progress of a RECIPE.")
@click.pass_context
def table(
    ctx: click.Context,
    /,
    *,
    recipe_folder: Path | None,
    record_folder: Path,
    every: bool,
    output: Path | None,
    as_json: bool,
    jobs: int,
    render: bool,
    dask: str | None,
    only: tuple[str, ...],
    first: int | None,
    store_folder: Path,
    quiet: bool,
) -> None:
    """Write the overview of runs: value, best baseline, bound, gap, phase times.

    With RECIPE, a folder that holds recipe.toml (results/paper/dualpipe), plan its cases and
    write table.md, table.json and the figure there. A folder that holds study.toml names a script
    and its cases, one that holds spec.toml a suite. What was done before is not done again.

    Exits with 3 when there is no record, or one that cannot be read; with a suite as
    `milp-plan bench run`, and with 7 if a result contradicts a known value.
    """
    runs, part = SuiteRuns(store_folder, jobs, dask, quiet=quiet), Part(only, first)
    _refuse_idle(recipe_folder, dask, render=render)
    if recipe_folder is not None:
        ctx.exit(_of_folder(recipe_folder, runs, part, render=render))
    from milp_plan.io.files import write_atomic
    from milp_plan.report import to_json, to_markdown

    refuse([Output("--output", output, Content.TABLE)])

    records: list[dict[str, Any]] = []
    code = Exit.DONE
    for item in _records(record_folder):
        if isinstance(item, InputError):
            complain(item)
            code = Exit.BAD_INPUT
        else:
            records.append(item)
    if not every:
        records = list({record["fingerprint"]: record for record in records}.values())
    records.sort(key=lambda record: (record.get("operators") or 0, record["instance"]))
    if not records:
        remedy = "run milp-plan solve, or name another folder"
        raise InputError(
            [Finding("records", "none", "at least one run", remedy, str(record_folder))]
        )
    text = (to_json if as_json else to_markdown)(records)
    if output is None:
        say(text.rstrip("\n"))
    else:
        write_atomic(output, text.encode())
        say(f"{output}: {len(records)} run{'' if len(records) == 1 else 's'}")
    ctx.exit(code)


OF_RUNS = ("record_folder", "every", "output", "as_json")
"""Parameters on the overview of runs."""

OF_A_RECIPE = ("render", "only", "first", "store_folder", "jobs", "dask", "quiet")
"""Parameters on a recipe, a study or the table of a suite."""


def _refuse_idle(folder: Path | None, dask: str | None, *, render: bool) -> None:
    """Refuse options of the other use of the verb, and of runs where none is done."""
    if folder is None:
        refuse_idle(dict.fromkeys(OF_A_RECIPE, "it is for a RECIPE; name its folder"))
        return
    refuse_idle(dict.fromkeys(OF_RUNS, f"the table of {folder} has its own files; leave it out"))
    if render:
        refuse_run_options("--render does no run")
        if not (folder / RECIPE).exists():  # whose figure is drawn from a stored plan
            refuse_idle({"store_folder": f"--render reads {folder / RESULTS} alone; leave it out"})
    refuse_jobs(dask)


def _of_folder(folder: Path, runs: SuiteRuns, part: Part, *, render: bool) -> Exit:
    if (folder / "study.toml").exists():
        from .studies import make_study

        return make_study(folder, runs, part, render=render)
    if part.named:
        remedy = "leave out --only and --first, or name the folder of a study"
        raise InputError([Finding("folder", "no study.toml", "a study", remedy, str(folder))])
    if (folder / "spec.toml").exists():
        from .suite_table import make_suite_table

        return make_suite_table(folder, runs, render=render)
    from .recipes import make_table

    return make_table(folder, runs, render=render)


def _records(folder: Path) -> Iterator[dict[str, Any] | InputError]:
    """Read every record of a folder, the oldest first."""
    from milp_plan.io.record_file import read_record

    files = [path for path in folder.glob("*.json") if not path.name.endswith(".plan.json")]
    for path in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name)):
        try:
            yield read_record(path)
        except InputError as error:
            yield error
