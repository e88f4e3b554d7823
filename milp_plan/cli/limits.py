"""Options on searches and their limits, which several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from typing import Any

import click
from click.core import ParameterSource

from milp_plan.core.budget import LARGEST_SETTING


class Number(click.FloatRange):
    """A range of numbers; NaN is in no range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; ``nan`` is refused."""
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not in the range {self._describe_range()}.", param, ctx)
        return number


SECONDS = Number(min=0, min_open=True)
"""A time limit; ``inf`` means no limit."""

GAP = Number(min=0, max=1)
"""A relative gap; with 1 a run stops with any plan."""

SETTING = click.IntRange(min=0, max=LARGEST_SETTING)
POSITIVE_SETTING = click.IntRange(min=1, max=LARGEST_SETTING)


def refuse_idle(why: Mapping[str, str]) -> None:
    """Refuse options of the current command that were set and would do nothing.

    Parameters
    ----------
    why
        Name of a parameter -> the reason, and what to do.

    Raises
    ------
    click.UsageError
        Names each that was typed.
    """
    ctx = click.get_current_context()
    options = {one.name: one.opts[0] for one in ctx.command.params}
    typed = [n for n in why if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    if typed:
        lines = (f"{_typed(options[n], ctx.params[n])} would do nothing: {why[n]}" for n in typed)
        raise click.UsageError("\n".join(lines))


def _typed(option: str, value: Any) -> str:
    """Return an option about as it was typed."""
    words = value if isinstance(value, list | tuple) and not hasattr(value, "_fields") else (value,)
    return option if value is True else f"{option} {','.join(map(str, words))}"


def _threads() -> str:
    """Return the default number of threads of a run, by kind of problem."""
    from milp_plan.run.kinds import kinds

    return ", ".join(f"{kind.threads} ({kind.name})" for kind in kinds())


def limits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options on limits of a run; defaults as in ``milp_plan.run.Settings``."""
    for option in (
        click.option(
            "--threads",
            type=POSITIVE_SETTING,
            help=f"Of solvers and searches.  [default: {_threads()}; with --node-limit 1]",
        ),
        click.option(
            "--seed",
            type=SETTING,
            default=0,
            show_default=True,
            help="Of solvers and searches.",
        ),
        click.option(
            "--gap",
            type=GAP,
            default=0.0,
            show_default=True,
            help="Relative gap at which to stop, such as 1e-4: the plan is then optimal within "
            "0.01 %. With 0 the run goes on until value and bound are equal: proved optimal.",
        ),
        click.option(
            "--rounds",
            type=SETTING,
            help="Rounds of neighbourhood search.  [default: until the time limit; with "
            "--node-limit 40]",
        ),
        click.option(
            "--node-limit",
            type=POSITIVE_SETTING,
            help="Branch-and-bound nodes per model; makes runs repeatable.",
        ),
        click.option(
            "--time-limit",
            type=SECONDS,
            default=60.0,
            show_default=True,
            help="Seconds per file, from the start of the process or the end of the file before; "
            "inf: until it is proved.",
        ),
    ):
        function = option(function)
    return function
