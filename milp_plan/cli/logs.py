"""``-v`` and ``--log-file``: what a command does on its way, for people who want to know.

Everything goes through Python's ``logging`` under the name ``milp_plan``. Steps and what was left
out are ``INFO``; progress and what HiGHS prints are ``DEBUG``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from .inputs import PATH
from .outputs import LOG_HEAD, Content, Output, refuse

NAME = "milp_plan"

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""By how often ``-v`` is given; the last one for more."""

HEAD = LOG_HEAD.decode()
"""First line of a log file, by which it is known as one."""

LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def logged(command: click.Command) -> click.Command:
    """Give a command, and those below it, the options on its log."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            logged(below)
        return command
    command.params += [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            help="Print each step on standard error; -vv: also progress and the solver's log.",
        ),
        click.Option(["--log-file"], type=PATH, help="Write all that -vv prints, with times."),
    ]
    work = command.callback
    assert work is not None

    @wraps(work)
    def logged_command(*args: Any, verbose: int, log_file: Path | None, **given: Any) -> Any:
        refuse((Output("--log-file", log_file, Content.LOG),), _paths(given.values()))
        with ExitStack() as stack:
            if verbose:
                level = LEVELS[min(verbose, len(LEVELS) - 1)]
                stack.enter_context(_attached(logging.StreamHandler(), level, "%(message)s"))
            if log_file is not None:
                log_file.write_text(f"{HEAD}\n", encoding="utf-8")
                handler = logging.FileHandler(log_file, encoding="utf-8")
                stack.enter_context(_attached(handler, logging.DEBUG, LINE))
            return work(*args, **given)

    command.callback = logged_command
    return command


def _paths(given: Iterable[Any]) -> list[Path]:
    """Files that the command names: its log is none of them."""
    several = (item if isinstance(item, tuple) else (item,) for item in given)
    return [item for items in several for item in items if isinstance(item, Path)]


@contextmanager
def _attached(handler: logging.Handler, level: int, form: str) -> Iterator[None]:
    """Attach a handler that receives everything from its level on."""
    logger = logging.getLogger(NAME)
    known = logger.level
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(form))
    logger.addHandler(handler)
    logger.setLevel(min(level, known or level))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(known)
