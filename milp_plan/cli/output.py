"""Output: results to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from milp_plan.core import InputError, MilpPlanError, UnusedOptionError

if TYPE_CHECKING:
    from milp_plan.face.progress import Display

_WIDTH = 120
"""Width of tables that are not written to a terminal."""


_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
"""Control characters of terminals, which names in files may contain."""


def say(text: str = "") -> None:
    """Write a line of the result."""
    click.echo(_shown(text, sys.stdout))


def note(text: str) -> None:
    """Write a line to standard error; the run goes on if that fails."""
    with suppress(OSError, ValueError):  # a full disk, a closed pipe, a closed stream
        click.echo(_shown(text, sys.stderr), err=True)


def display(problem: Any, *, quiet: bool) -> Display:
    """Return a context manager that shows progress: not at all, on the terminal, or as a log."""
    from milp_plan.face.progress import chosen

    return chosen(problem, not quiet, note)


def _shown(text: str, stream: TextIO) -> str:
    """Return a text that a stream can show: control and unsupported characters are escaped."""
    text = text.translate(_CONTROLS)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def option_of(name: str) -> str:
    """Return an option of the current command as it is typed, from its name in Python."""
    ctx = click.get_current_context(silent=True)
    known = [] if ctx is None else ctx.command.params
    for parameter in known:
        if isinstance(parameter, click.Option) and parameter.name == name.removesuffix("_s"):
            return parameter.opts[0]
    return f"--{name.removesuffix('_s').replace('_', '-')}"


def complain(error: MilpPlanError, file: Path | None = None) -> None:
    """Write an error, one line per finding; ``file`` is named if the error names none."""
    if isinstance(error, UnusedOptionError):
        error = error.named(option_of)
    if isinstance(error, InputError):
        for finding in error.findings:
            note(f"error: {finding}")
    else:
        place = "" if file is None else f"{file}: "
        note(f"error: {place}{error}")


def say_json(content: Any, *, pretty: bool = False) -> None:
    """Write a JSON document in one line, or indented. Integers stay exact; NaN becomes null."""
    text = json.dumps(
        _plain(content),
        indent=2 if pretty else None,
        ensure_ascii=(getattr(sys.stdout, "encoding", None) or "utf-8").lower()
        not in ("utf-8", "utf8"),
        allow_nan=False,
    )
    click.echo(text)
    if sys.stdout is not None:
        sys.stdout.flush()


def _plain(item: Any) -> Any:
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    if isinstance(item, Mapping):
        return {str(key): _plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_plain(entry) for entry in item]
    return item if item is None or isinstance(item, str | int | bool) else str(item)


def table_text(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    numeric: Iterable[int] = (),
) -> str:
    """Return a table of texts as lines that fit the terminal.

    Parameters
    ----------
    headings
        One per column; all empty for a table without a head.
    rows, title
        Rows of the table, and a line above it.
    numeric
        Places of columns that are set to the right.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    right = set(numeric)
    table = Table(
        title=None if title is None else Text(title),
        title_justify="left",
        show_header=any(headings),
        box=box.SIMPLE_HEAD if any(headings) else None,
        padding=(0, 1, 0, 0) if any(headings) else (0, 1, 0, 1),
    )
    for place, heading in enumerate(headings):
        side: Literal["left", "right"] = "right" if place in right else "left"
        table.add_column(heading, justify=side, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    width = get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else _WIDTH
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join(line for line in lines if line)


def say_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    numeric: Iterable[int] = (),
) -> None:
    """Write a table of texts; see :func:`table_text`."""
    say(table_text(headings, rows, title=title, numeric=numeric))
