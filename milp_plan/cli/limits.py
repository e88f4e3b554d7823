"""Options on when a run ends, shared by the commands that search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def limits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options on when a run ends; defaults as in ``milp_plan.run.Settings``."""
    for option in (
        click.option(
            "--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of HiGHS."
        ),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="Of HiGHS and of the neighbourhood search.",
        ),
        click.option(
            "--gap",
            type=click.FloatRange(min=0),
            default=1e-4,
            show_default=True,
            help="Relative gap at which a plan counts as proved optimal.",
        ),
        click.option(
            "--rounds",
            type=click.IntRange(min=0),
            help="Rounds of neighbourhood search; until the time limit unless given.",
        ),
        click.option(
            "--node-limit",
            type=click.IntRange(min=1),
            help="Branch-and-bound nodes per model; makes runs repeatable.",
        ),
        click.option(
            "--time-limit",
            type=click.FloatRange(min=0, min_open=True),
            default=60.0,
            show_default=True,
            help="Seconds per file.",
        ),
    ):
        function = option(function)
    return function
