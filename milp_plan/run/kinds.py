"""The kinds of problems: the folders of :mod:`milp_plan.kinds` that have a module ``kind``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from milp_plan.core import Finding, InputError, UnusedOptionError
from milp_plan.io import native_wire
from milp_plan.io.defects import nearest, syntax_finding
from milp_plan.io.files import Document, read_document

from .change import Change
from .kind import Format, Kind

AnyKind = Kind[Any, Any]

_FOLDER = Path(__file__).parents[1] / "kinds"


@cache
def kinds() -> tuple[AnyKind, ...]:
    """Return every kind, in the order of their names."""
    return tuple(module.KIND for module in kind_modules("kind"))


def kind_modules(name: str) -> Iterator[ModuleType]:
    """Import the modules of one name of all kinds that have it, in the order of the kinds."""
    for file in sorted(_FOLDER.glob(f"*/{name}.py")):
        yield import_module(f"milp_plan.kinds.{file.parent.name}.{name}")


def kind_of(problem: object) -> AnyKind:
    """Return the kind of a problem.

    Raises
    ------
    TypeError
        It is no problem.
    """
    for kind in kinds():
        if kind.owns(problem):
            return kind
    raise TypeError(f"{type(problem).__name__} is no problem of a known kind")


def formats() -> tuple[tuple[AnyKind, Format[Any]], ...]:
    """Return every format with the kind it belongs to, in the order they are tried."""
    return tuple((kind, entry) for kind in kinds() for entry in kind.formats())


def read(
    path: str | Path,
    changes: Mapping[str, Any] | None = None,
    on_kind: Callable[[AnyKind], None] = lambda _: None,
) -> tuple[AnyKind, Any]:
    """Read a problem of any kind, compressed or not.

    Parameters
    ----------
    path
        The file.
    changes
        What is asked of it beside what the file says, by the names of :attr:`Kind.changes`.
    on_kind
        Called once its kind is known, before the longer part of reading.

    Raises
    ------
    InputError
        The file cannot be read, is of no known format, has defects, or is of a kind for which a
        change means nothing. Every finding names the file.
    """
    return read_whole(read_document(path), changes or {}, on_kind)


def read_plan(kind: AnyKind, file: Path, problem: Any, instance_file: Path) -> Any:
    """Read a plan of a problem; a file that was exported from a plan is refused by its name.

    Raises
    ------
    InputError
        The file is no plan file, or its plan is for another instance.
    """
    try:
        return kind.read_plan(file, problem, instance_file)
    except InputError:
        if file.is_file():  # a pipe cannot be read again
            _refuse_export(kind, read_document(file, "a plan file"))
        raise


def _refuse_export(kind: AnyKind, document: Document) -> None:
    for name, export in kind.exports().items():
        if not kind.is_plan(document) and export.is_one(document):
            found, remedy = f"{export.title} ({name})", "name the plan that it was exported from"
            raise InputError([Finding("file", found, "a plan", remedy, document.file)])


def asked_again(texts: Any, file: str | Path) -> dict[str, Any]:
    """Read the changes that a record lists (:func:`~milp_plan.run.change.as_asked`).

    Raises
    ------
    InputError
        They are no changes; the finding names the file.
    """
    known = {change.name: change for kind in reversed(kinds()) for change in kind.changes}
    asked: dict[str, Any] = {}
    given = {} if texts is None else texts
    findings = []
    for name, text in given.items() if isinstance(given, dict) else [("", given)]:
        try:
            asked[name] = _again(known.get(name), text)
        except ValueError as error:
            remedy = "solve again: the record was changed"
            expected = "what a run was asked"
            findings.append(Finding(f"changes.{name}", str(error), expected, remedy, str(file)))
    if findings:
        raise InputError(findings)
    return asked


def _again(change: Change | None, text: Any) -> Any:
    """Return a change of an instance from its text in a record."""
    if change is not None and change.read is None and text is True:
        return True
    if change is not None and change.read is not None and isinstance(text, str):
        return change.read(text)
    raise ValueError(f"{text!r}, no change")


def read_whole(
    document: Document,
    changes: Mapping[str, Any],
    on_kind: Callable[[AnyKind], None] = lambda _: None,
) -> tuple[AnyKind, Any]:
    """Read a problem of any kind from a document; see :func:`read`."""
    try:
        kind, entry = _format_of(document)
        on_kind(kind)
        asked = {  # 0 is asked, though it equals False
            name: change
            for name, change in changes.items()
            if change is not None and change is not False
        }
        if findings := list(unknown_changes(kind, asked)):
            raise UnusedOptionError(findings)
        return kind, entry.read(document, asked)
    except InputError as error:
        raise error.in_file(document.file) from None


def unknown_changes(kind: AnyKind, asked: Mapping[str, Any]) -> Iterator[Finding]:
    """List what is asked of an instance and means nothing for its kind."""
    for name in asked:
        if name not in _names(kind):
            homes = " and ".join(other.name for other in kinds() if name in _names(other))
            yield Finding(
                name,
                f"an option of {homes} problems",
                f"none of these for a {kind.name} problem",
                "leave it out",
            )


def _names(kind: AnyKind) -> set[str]:
    return {change.name for change in kind.changes}


def _format_of(document: Document) -> tuple[AnyKind, Format[Any]]:
    owners = [kind for kind in kinds() if document.marker and kind.marker == document.marker]
    for kind in owners or kinds():
        for entry in kind.formats():
            if entry.can_read(document):
                return kind, entry
    titles = "; ".join(entry.title for _, entry in formats())
    raise InputError([unknown_format(document, titles)])


def unknown_format(document: Document, titles: str) -> Finding:
    """Say what a document of no known format is, and what was expected."""
    expected = f"one of: {titles}"
    if document.marker is not None and document.marker.endswith("-plan"):
        return Finding("format", "a plan file", "an instance file", "name the instance instead")
    if ".toml" in document.path.suffixes:
        from milp_plan.io.pipeline_file import toml_content

        toml_content(document)  # says where it is none
    elif document.data.lstrip()[:1] in (b"{", b"["):
        wrong = syntax_finding(document.data)
        if wrong is not None:
            return wrong
    if document.marker is not None:
        remedy = nearest(document.marker, [native_wire.MARKER], "convert the file")
        return Finding("format", repr(document.marker), expected, remedy)
    keys = ", ".join(list(document.top_level)[:6])
    found = f"JSON with the members {keys}" if keys else "content of no known format"
    return Finding("file", found, expected, "convert the file to the native format")
