"""Arguments that name files, and options that change problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from milp_plan.core import PLAIN_OBJECTIVES, CommunicationModel, InputError, Objective
from milp_plan.core.budget import now
from milp_plan.run.change import Change, positive

from .limits import refuse_idle

if TYPE_CHECKING:
    from milp_plan.run.kind import Kind

_Function = TypeVar("_Function", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
"""A path that need not exist: readers report more on a wrong file than click."""


class Item(NamedTuple):
    """A file, its problem or error, and the time at which its time limit began to count."""

    path: Path
    kind: Kind[Any, Any] | None
    problem: Any
    error: InputError | None = None
    began: float = 0.0


def positive_fraction(text: str) -> Fraction:
    """Read an exact positive number.

    Raises
    ------
    click.BadParameter
        It is none.
    """
    try:
        return positive(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def on_cluster(function: _Function) -> _Function:
    """Add the options on cluster and objective of a new instance to a command."""
    options = (
        click.option(
            "--memory-scale",
            type=positive_fraction,
            metavar="FRACTION",
            default="1",
            help="Factor on the memory of every device, exact: 0.8 or 4/5.",
        ),
        click.option(
            "--communication",
            type=click.Choice([model.value for model in CommunicationModel]),
            help="What a transfer holds while it runs.  [default: channel, or as a cluster's file"
            " says]",
        ),
        click.option("--link", help="Link inside nodes, if not the devices' own, such as PCIe4."),
        click.option(
            "--objective",
            type=click.Choice([entry.value for entry in PLAIN_OBJECTIVES]),
            default=Objective.MAKESPAN.value,
            show_default=True,
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def varied(function: _Function) -> _Function:
    """Add the changes of all kinds to a command, which receives them as ``changes``."""
    return varied_without()(function)


def varied_without(*names: str) -> Callable[[_Function], _Function]:
    """Add the changes except some names, for which the command has its own options."""
    known = {name: entries for name, entries in _changes().items() if name not in names}

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def command(*args: Any, **options: Any) -> Any:
            chosen = {name: options.pop(name) for name in known}
            return function(*args, changes=chosen, **options)

        for entries in reversed(known.values()):
            command = _option(entries)(command)
        return cast(_Function, command)

    return decorate


def _changes() -> dict[str, list[Change]]:
    """Return changes by name; kinds may share one."""
    from milp_plan.run.kinds import kinds

    changes: dict[str, list[Change]] = {}
    for kind in kinds():
        for change in kind.changes:
            changes.setdefault(change.name, []).append(change)
    return changes


def refuse_changes(why: str) -> None:
    """Refuse changes of a problem where no problem is read; see ``refuse_idle``."""
    refuse_idle(dict.fromkeys(_changes(), f"{why}; leave it out"))


def _option(entries: list[Change]) -> Callable[[Any], Any]:
    first = entries[0]
    text = " ".join(dict.fromkeys(entry.help for entry in entries))
    if first.read is None:
        return click.option(first.option, is_flag=True, help=text)
    read = first.read

    def convert(_ctx: click.Context, _parameter: click.Parameter, word: str | None) -> Any:
        try:
            return None if word is None else read(word)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return click.option(first.option, callback=convert, metavar=first.form, help=text)


def items(
    files: tuple[Path, ...],
    changes: dict[str, Any],
    on_kind: Callable[[Kind[Any, Any]], None] = lambda _: None,
) -> Iterator[Item]:
    """Yield files with their problems; a bad file has its error in place of a problem.

    The time for the first one began with the process, where the command is one; ``on_kind`` is
    called with each kind before the longer part of reading.
    """
    from milp_plan.run.kinds import read

    known: float | None = click.get_current_context().find_root().obj
    began = now() if known is None else known
    for path in files:
        try:
            kind, problem = read(path, changes, on_kind)
            yield Item(path, kind, problem, None, began)
        except InputError as error:
            yield Item(path, None, None, error, began)
        began = now()


def item(file: Path, changes: dict[str, Any]) -> Item:
    """Read one problem.

    Raises
    ------
    InputError
        The file is not what its format says.
    """
    result = next(items((file,), changes))
    if result.error is not None:
        raise result.error
    return result


def plan_of(item: Item, plan_file: Path) -> Any:
    """Read a plan of a problem.

    Raises
    ------
    InputError
        The file is no plan, or its plan is for another problem.
    """
    from milp_plan.run.kinds import read_plan

    assert item.kind is not None
    return read_plan(item.kind, plan_file, item.problem, item.path)
