"""Checks of the arguments of public functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from milp_plan.run import Outcome
from milp_plan.run.kinds import kind_of, kinds

from .quantities import quoted, refuse, text


def a_path(given: Any, where: str) -> Path:
    """Return a path."""
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        refuse(where, quoted(given), "a path: a text, or a pathlib.Path", "name a file")
    if not _encodes(os.fspath(given)):
        refuse(where, quoted(given), "a name that a file can have", "name a file")
    return Path(given)


def _encodes(name: str) -> bool:
    """Return whether the file system can encode a name."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:  # half a character
        return False


def a_folder(given: Any, where: str) -> Path | None:
    """Return a folder, which need not exist yet; ``None`` for ``None``."""
    folder = None if given is None else a_path(given, where)
    if folder is not None and folder.exists() and not folder.is_dir():
        refuse(where, f"{str(folder)!r}, a file", "a folder", "name another")
    return folder


@contextmanager
def writing(path: Path, where: str) -> Iterator[None]:
    """Turn an error in writing a file into a finding."""
    try:
        yield
    except (OSError, ValueError) as error:  # the latter: a suffix of no picture
        found = f"{str(path)!r}: {getattr(error, 'strerror', None) or error}"
        refuse(where, found, "a file that can be written", "name another file")


def a_problem(given: Any, where: str) -> Any:
    """Return a problem of any kind; a model is built."""
    if any(kind.owns(given) for kind in kinds()):
        return given
    from .model import Model

    made = given.build() if isinstance(given, Model) else given
    if not any(kind.owns(made) for kind in kinds()):
        remedy = "read one by mp.read(path), or make a Model"
        if isinstance(made, Outcome):
            remedy = "give its problem: outcome.problem"
        refuse(where, quoted(given), "a problem, or a Model", remedy)
    return made


def a_plan(problem: Any, given: Any, where: str) -> Any:
    """Return a plan of the kind of a problem, or of any kind without a problem."""
    known = kinds() if problem is None else (kind_of(problem),)
    if not any(kind.owns_plan(given) for kind in known):
        expected = "a plan" if problem is None else f"a plan of a {known[0].name} problem"
        remedy = "read one by mp.read_plan(path, problem), or plan it by mp.solve"
        if isinstance(given, Outcome):
            remedy = "give its plan: outcome.plan"
        refuse(where, quoted(given), expected, remedy)
    return given


def a_hook(given: Any, where: str) -> Any:
    """Return a callable, or ``None``."""
    if given is not None and not callable(given):
        refuse(where, quoted(given), "a function, or None", "give a function of one argument")
    return given


def a_display(given: Any, where: str) -> bool | Literal["auto"]:
    """Return whether progress is shown."""
    if not isinstance(given, bool) and not (isinstance(given, str) and given == "auto"):
        refuse(where, quoted(given), 'True, False or "auto"', "choose one of these")
    return cast("bool | Literal['auto']", given)


def several(given: Any, where: str, what: str, check: Callable[[Any, str], Any]) -> list[Any]:
    """Return a list of checked entries."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        refuse(where, quoted(given), f"a list of {what}", "write it as a list")
    return [check(entry, where) for entry in given]


def texts(given: Any, where: str) -> list[str]:
    """Return a list of texts; a single one becomes a list."""
    return several([given] if isinstance(given, str) else given, where, "texts", text)


def a_mapping(given: Any, where: str) -> dict[str, Any]:
    """Return values by name; empty for ``None``."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        refuse(where, quoted(given), "a dict of values by name", "write it as a dict")
    return dict(given)
