"""``expand``: a file of jobs whose models are planned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from milp_plan.cli.inputs import PATH
from milp_plan.cli.limits import SECONDS, SETTING
from milp_plan.cli.output import note, say
from milp_plan.cli.outputs import Content, Output, refuse

if TYPE_CHECKING:
    from .trainings import Step


@click.command()
@click.argument("file", metavar="IN", type=PATH)
@click.argument("output", metavar="OUT", type=PATH)
@click.option(
    "--time-limit",
    type=SECONDS,
    default=10.0,
    show_default=True,
    help="Seconds for each model on each number of devices.",
)
@click.option("--seed", type=SETTING, default=0, show_default=True, help="Of searches.")
def expand(file: Path, output: Path, time_limit: float, seed: int) -> None:
    """Plan the models that jobs of IN name, and write OUT with the options they have.

    A model is one of the zoo or an instance file; each is planned on each number of devices. OUT
    names the planner of each option and the quality of its plan.
    """
    from milp_plan.io.files import read_document, write_document
    from milp_plan.run import Settings

    from .format import TITLE, to_toml
    from .trainings import expanded

    refuse([Output("OUT", output, Content.INSTANCE)], [file])
    settings = Settings(time_limit_s=time_limit, threads=1, seed=seed)
    problem = expanded(read_document(file, TITLE), settings, _note_step)
    write_document(output, to_toml(problem))
    options = sum(len(unit.options) for job in problem.jobs for unit in job.units)
    say(f"{output}: {problem.name}, {len(problem.jobs):,} jobs, {options:,} options")


def _note_step(step: Step) -> None:
    note(f"{step.job}: {step.technique} on {step.devices} of {step.pool}: {step.summary}")


COMMANDS = (expand,)
"""Verbs of the command line."""
