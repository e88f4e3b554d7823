"""``bench``: does the runs of a suite once, stores and collects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError

from . import interrupts
from .bench_progress import Watch, display
from .exits import Exit, most_serious
from .inputs import PATH
from .interrupts import Deferred
from .limits import refuse_idle
from .output import note, say, say_json

if TYPE_CHECKING:
    from milp_plan.study.driver import Executor, SuiteProgress
    from milp_plan.study.store import Store
    from milp_plan.study.tasks import Expansion, Task

STORE = Path("results/store")
SUITES = Path("instances/suites")
KNOWN = "instances/known_values.toml"

stored = click.option(
    "--store",
    "store_folder",
    type=PATH,
    default=STORE,
    show_default=True,
    help="Folder of results by content.",
)
suite_named = click.argument("suite_file", metavar="SUITE", type=PATH)


class InterruptCounter(Deferred):
    """A context manager in which Ctrl-C is only counted."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        super()._note(number, frame)
        self.count += 1


def suite_path(path: Path) -> Path:
    """Return the file of a suite: a path, or the name of one in ``instances/suites``."""
    named = SUITES / f"{path}.toml"
    return named if not path.exists() and path.suffix != ".toml" and named.is_file() else path


def open_suite(path: Path, store_folder: Path) -> tuple[Expansion, Store]:
    """Read a suite and all its instances.

    Raises
    ------
    InputError
        The suite is not what its format says.
    """
    from milp_plan.io.suite_file import read_suite
    from milp_plan.study.store import Store
    from milp_plan.study.tasks import expand

    return expand(read_suite(suite_path(path))), Store(store_folder)


@click.group()
def bench() -> None:
    """Run a suite of instances, and collect its results."""


@bench.command()
@suite_named
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs at a time, each in its own process.",
)
@click.option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster that does the runs.")
@stored
@click.option(
    "--retry-failed/--no-retry-failed",
    default=True,
    show_default=True,
    help="Run again what failed in an earlier call.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be run.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    suite_file: Path,
    jobs: int,
    dask: str | None,
    store_folder: Path,
    retry_failed: bool,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Do the runs of SUITE that the store has no result of.

    SUITE is a TOML file, or the name of one in instances/suites. Ctrl-C or SIGTERM ends it: the
    best plan of each current run is stored as that of an interrupted run. The same command resumes
    where it stopped, also after a crash.

    Exits with 6 if a run failed, 7 if a plan fails the check, 3 if an instance cannot be read,
    130 if runs are left after Ctrl-C, 143 after SIGTERM; a run that finds no plan, or proves that
    there is none, has not failed.
    """
    if dry_run:
        refuse_run_options("--dry-run does no run")
    refuse_jobs(dask)
    expansion, store = open_suite(suite_file, store_folder)
    note_missing(expansion)
    if dry_run:
        _say_pending(expansion, store, retry_failed=retry_failed)
        return
    runs = SuiteRuns(store_folder, jobs, dask, retry_failed, quiet)
    state = runs.all_of(expansion.tasks)
    _note_totals(state)
    ctx.exit(most_serious([_code_of_state(state), code_of_runs(expansion, store)]))


@dataclass(frozen=True)
class SuiteRuns:
    """How runs are done, by the options of ``bench run``."""

    store_folder: Path
    jobs: int = 1
    dask: str | None = None
    retry_failed: bool = True
    quiet: bool = False

    def all_of(self, tasks: Sequence[Task]) -> SuiteProgress:
        """Do the unfinished ones of some runs; Ctrl-C makes it return early."""
        from milp_plan.study.driver import drive
        from milp_plan.study.store import Store

        store = Store(self.store_folder)
        executor = self._executor()
        try:
            with InterruptCounter() as presses, display(quiet=self.quiet) as show:
                return drive(
                    tasks,
                    store,
                    executor,
                    retry_failed=self.retry_failed,
                    presses=lambda: presses.count,
                    on_event=Watch(show, executor.news),
                )
        finally:
            executor.close()

    def _executor(self) -> Executor:
        if self.dask is None:
            from milp_plan.run.identity import snapshot
            from milp_plan.study.driver import Local

            return Local(self.jobs, snapshot(self.store_folder / "sources"))
        from milp_plan.study.cluster import Dask

        return Dask(self.dask)

    def rows_of(self, tasks: Sequence[Task]) -> list[dict[str, Any]] | Exit:
        """Do measurements; return their rows, or the exit code of a command that cannot go on."""
        from milp_plan.study.measured import rows_of
        from milp_plan.study.store import Store

        state = self.all_of(tasks)
        if state.left or state.stopped:
            note(f"{state.left + state.stopped} runs are left; the table is as it was")
            return Exit.INTERRUPTED
        rows, failures = rows_of(tasks, Store(self.store_folder))
        for text in failures:
            note(text)
        return Exit.SOLVER_FAILURE if failures else rows


def refuse_run_options(why: str) -> None:
    """Refuse options on runs where none is done; see ``refuse_idle``."""
    refuse_idle(dict.fromkeys(("jobs", "dask", "quiet"), f"{why}; leave it out"))


def refuse_jobs(dask: str | None) -> None:
    """Refuse a number of concurrent runs where a cluster sets it."""
    if dask is not None:
        refuse_idle({"jobs": "workers of --dask do the runs, as many as there are; leave it out"})


def note_missing(expansion: Expansion) -> None:
    """Write the instances that cannot be run."""
    for entry in expansion.missing:
        name = f"{entry.label}, {entry.variation}" if entry.variation else entry.label
        note(f"{expansion.suite.path}: {name}: {entry.reason}")


def _say_pending(expansion: Expansion, store: Store, *, retry_failed: bool) -> None:
    from milp_plan.study.driver import to_do

    pending, finished, failed = to_do(expansion.tasks, store, retry_failed=retry_failed)
    for task in pending:
        say(f"{task.title}: {task.asked['time_limit_s']:g} s")
    limit = sum(task.asked["time_limit_s"] for task in pending)
    note(
        f"{len(pending)} runs of at most {limit:g} s together; {len(finished)} are finished, "
        f"{len(failed)} failed and stay so, {len(expansion.missing)} instances cannot be run"
    )


def _note_totals(state: SuiteProgress) -> None:
    parts = [
        f"{state.total} runs: {state.done} done now, {state.known} before",
        f"{state.failed} failed",
        f"{state.left + state.stopped} left",
        f"{state.elapsed_s:.1f} s",
    ]
    note(", ".join(parts))


def _code_of_state(state: SuiteProgress) -> Exit:
    return interrupts.code() if state.left or state.stopped else Exit.DONE


def code_of_runs(expansion: Expansion, store: Store) -> Exit:
    """Return the exit code of all answers of a suite."""
    from milp_plan.study.rows import rows_of

    codes = [Exit.DONE]
    for row in rows_of(expansion, store):
        if row["verdict"] in ("DISPUTED", "violated"):
            codes.append(Exit.NOT_VALID)
        if row["status"] == "failed":
            codes.append(Exit.SOLVER_FAILURE)
    if any(not entry.harmless for entry in expansion.missing):
        codes.append(Exit.BAD_INPUT)
    return most_serious(codes)


# -- what there is --------------------------------------------------------------------------------


@bench.command()
@suite_named
@stored
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(*, suite_file: Path, store_folder: Path, as_json: bool) -> None:
    """Count finished, failed, interrupted and open runs of SUITE; show who has locks."""
    from milp_plan.study.rows import rows_of

    expansion, store = open_suite(suite_file, store_folder)
    rows = rows_of(expansion, store)
    counts = Counter(row["status"] for row in rows)
    for row in rows:
        store.load(row["key"]) if row["key"] else None
    failures = [row for row in rows if row["status"] in ("failed", "bad", "absent")]
    if as_json:
        counted = {"suite": expansion.suite.name, "runs": len(expansion.tasks), **counts}
        say_json(counted | {"failures": failures, "damaged": store.damaged}, pretty=True)
        return
    say(f"{expansion.suite.name}: {len(expansion.tasks)} runs")
    for name, count in sorted(counts.items()):
        say(f"  {name:<12} {count}")
    for row in failures:
        what = ", ".join(str(row[key]) for key in ("file", "variation", "planner") if row[key])
        say(f"{row['status']}: {what}: {row['error']}")
    for key, reason in store.damaged.items():
        say(f"damaged: {store.record_path(key)}: {reason}; it will be run again")


@bench.command()
@suite_named
@stored
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="File to write: .parquet, .csv, or without suffix both.  [default: results/bench/SUITE]",
)
@click.option("--known", type=PATH, help="Known values to compare with, instead of the suite's.")
@click.pass_context
def collect(
    ctx: click.Context,
    /,
    *,
    suite_file: Path,
    store_folder: Path,
    output: Path | None,
    known: Path | None,
) -> None:
    """Write one row per run of SUITE; compare with known values.

    A plan below a proved optimum, or a bound above the value of a known plan, exits with 7.
    """
    from milp_plan.io.files import write_atomic
    from milp_plan.report.collected import as_csv, as_parquet, frame
    from milp_plan.study.rows import BOOLEANS, COLUMNS, FLOATS, INTEGERS, rows_of

    expansion, store = open_suite(suite_file, store_folder)
    note_missing(expansion)
    rows = rows_of(expansion, store)
    target = output or Path("results/bench") / expansion.suite.name
    if target.suffix not in ("", ".csv", ".parquet") and output is not None:
        raise click.BadParameter(f"{target}: expected .csv, .parquet or no suffix")
    table = frame(rows, COLUMNS, integers=INTEGERS, floats=FLOATS, booleans=BOOLEANS)
    both = target.suffix not in (".csv", ".parquet")
    if output is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    for suffix, write in ((".parquet", as_parquet), (".csv", as_csv)):
        if both or target.suffix == suffix:
            path = target.with_name(target.name + suffix) if both else target
            write_atomic(path, write(table))
            say(str(path))
    left = sum(row["status"] in ("not run", "interrupted") for row in rows)
    if left:
        note(f"{left} runs have no answer yet: milp-plan bench run {suite_file}")
    code = check_known(rows, known_path(expansion, known))
    ctx.exit(most_serious([code, code_of_runs(expansion, store)]))


def known_path(expansion: Expansion, given: Path | None) -> Path | None:
    """Return the file of known values: the requested one, the suite's, or the nearest one.

    Raises
    ------
    InputError
        The suite names one that is not there.
    """
    from milp_plan.io.suite_file import above

    if given is not None:
        return given
    named = expansion.suite.content.known
    path = above(expansion.suite.path, named or KNOWN)
    if named is not None and not path.is_file():
        finding = Finding("known", repr(named), "a file", "correct the path")
        raise InputError([finding]).in_file(str(expansion.suite.path))
    return path if path.is_file() else None


def check_known(rows: Iterable[dict[str, Any]], path: Path | None) -> Exit:
    """Compare rows with known values, and write which are better or impossible."""
    from milp_plan.io.known_file import read_known
    from milp_plan.study.rows import against_known

    if path is None:
        note("no known values to compare with")
        return Exit.DONE
    better, wrong = against_known(rows, read_known(path))
    for text in better:
        note(f"better than known: {text}")
    for text in wrong:
        note(f"contradiction: {text}")
    return Exit.NOT_VALID if wrong else Exit.DONE
