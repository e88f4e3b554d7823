"""The command ``milp-plan``: its subcommands and the form of its errors."""

from __future__ import annotations

from typing import Any

import click

from milp_plan import __version__
from milp_plan.cli import (
    bench,
    bound,
    capture,
    check,
    cluster,
    data,
    diff,
    draw,
    execute,
    explain,
    info,
    interrupts,
    listing,
    logs,
    loops,
    make,
    new,
    report,
    solve,
    sweep,
    table,
    versions,
)
from milp_plan.core import MilpPlanError
from milp_plan.core.budget import process_began
from milp_plan.run.kinds import kind_modules

from .exits import Exit, code_of
from .output import complain, note

EPILOG = """\b
Exit codes: 0 success, 2 usage or a file that cannot be written, 3 bad
input, 4 proved infeasible, 5 limit reached without a plan, 6 solver failure,
7 a plan fails the check or disputes the solver, 8 PyTorch does not run as
planned, 130 interrupted by Ctrl-C, 129 by SIGHUP, 131 by SIGQUIT and 143 by
SIGTERM, with the best plan kept. Of several files the most serious counts:
7, 8, 143, 131, 129, 130, 6, 3, 2, 5, 4, 0.
Results go to standard output, everything else to standard error."""


class Commands(click.Group):
    """A group of commands whose errors are a message and an exit code."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program, where time limits count from the start of the process."""
        kwargs.setdefault("obj", process_began())
        interrupts.listen()
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; expected errors become a message instead of a traceback."""
        try:
            return super().invoke(ctx)
        except MilpPlanError as error:
            complain(error)
            ctx.exit(code_of(error))
        except BrokenPipeError:
            raise  # the reader of our output has gone; click ends quietly
        except OSError as error:
            note(f"error: {error}")
            ctx.exit(Exit.USAGE)
        except KeyboardInterrupt:
            note("interrupted")
            ctx.exit(interrupts.code())


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, prog_name="milp-plan")
def main() -> None:
    """Plan how a deep-learning computation graph runs on a cluster: exact, checked, bounded."""


for command in (
    solve.solve,
    check.check,
    cluster.cluster,
    explain.explain,
    diff.diff,
    sweep.sweep,
    bound.bound,
    info.info,
    listing.list_,
    make.generate,
    make.convert,
    capture.capture,
    draw.plot,
    draw.export,
    report.report,
    execute.run,
    new.new,
    table.table,
    bench.bench,
    data.data,
    loops.compile_,
    versions.show_versions,
    *(command for module in kind_modules("commands") for command in module.COMMANDS),
):
    main.add_command(logs.logged(command))
