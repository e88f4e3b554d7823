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
    """Return every kind, sorted by folder name."""
    return tuple(module.KIND for module in kind_modules("kind"))


def kind_modules(name: str) -> Iterator[ModuleType]:
    """Import and yield the module of a name of every kind that has it, in the order of kinds."""
    for file in sorted(_FOLDER.glob(f"*/{name}.py")):
        yield import_module(f"milp_plan.kinds.{file.parent.name}.{name}")


def kind_of(problem: object) -> AnyKind:
    """Return the kind of a problem.

    Raises
    ------
    TypeError
        It is not a problem of any kind.
    """
    for kind in kinds():
        if kind.owns(problem):
            return kind
    raise TypeError(f"{type(problem).__name__} is no problem of a known kind")


def formats() -> tuple[tuple[AnyKind, Format[Any]], ...]:
    """Return every format with its kind, in the order in which they are tried."""
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
        Values of :attr:`Kind.changes` by name, which change what the file says.
    on_kind
        Called once the kind is known, before the longer part of reading.

    Raises
    ------
    InputError
        The file cannot be read, is of no known format, has defects, or its kind does not have one
        of the changes. Every finding names the file.
    """
    return read_whole(read_document(path), changes or {}, on_kind)


def read_plan(kind: AnyKind, file: Path, problem: Any, instance_file: Path) -> Any:
    """Read a plan of a problem; an exported file is refused with the name of its format.

    Raises
    ------
    InputError
        The file is not a plan file, or its plan is for another instance.
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


def changes_from_text(texts: Any, file: str | Path) -> dict[str, Any]:
    """Read the changes that a record lists (:func:`~milp_plan.run.change.changes_to_text`).

    Raises
    ------
    InputError
        They are not changes; the finding names the file.
    """
    known = {change.name: change for kind in reversed(kinds()) for change in kind.changes}
    changes: dict[str, Any] = {}
    members = {} if texts is None else texts
    findings = []
    for name, text in members.items() if isinstance(members, dict) else [("", members)]:
        try:
            changes[name] = _value_from_text(known.get(name), text)
        except ValueError as error:
            remedy = "solve again: the record was changed"
            expected = "a change of an instance"
            findings.append(Finding(f"changes.{name}", str(error), expected, remedy, str(file)))
    if findings:
        raise InputError(findings)
    return changes


def _value_from_text(change: Change | None, text: Any) -> Any:
    """Return the value of a change from its text in a record."""
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
        requested = {  # 0 is a value, though it equals False
            name: change
            for name, change in changes.items()
            if change is not None and change is not False
        }
        if findings := list(unknown_changes(kind, requested)):
            raise UnusedOptionError(findings)
        return kind, entry.read(document, requested)
    except InputError as error:
        raise error.in_file(document.file) from None


def unknown_changes(kind: AnyKind, changes: Mapping[str, Any]) -> Iterator[Finding]:
    """Report changes that a kind does not have."""
    for name in changes:
        if name not in _names(kind):
            owners = " and ".join(other.name for other in kinds() if name in _names(other))
            yield Finding(
                name,
                f"an option of {owners} problems",
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
    """Return a finding on a document of no known format, with what was expected."""
    expected = f"one of: {titles}"
    if document.marker is not None and document.marker.endswith("-plan"):
        return Finding("format", "a plan file", "an instance file", "name the instance instead")
    if ".toml" in document.path.suffixes:
        from milp_plan.io.pipeline_file import toml_content

        toml_content(document)  # raises if it is not TOML, with the place
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
