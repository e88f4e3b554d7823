"""Typed JSON: fast when all is well, every defect named when it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.core.budget import LARGEST_SETTING

from .defects import quoted, repeated_members, schema_findings, syntax_finding

Count = Annotated[int, msgspec.Meta(ge=0)]
"""A number of bytes or ticks."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
"""A number that cannot be 0."""

Setting = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SETTING)]
"""A number that solvers are given."""

PositiveSetting = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SETTING)]
"""The same, where it cannot be 0."""

_WIDTH = 120
"""Letters of a line of written JSON."""

_Item = TypeVar("_Item")
_Wire = TypeVar("_Wire", bound=msgspec.Struct)


class Strict(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object whose unknown fields are errors and whose defaults are not written."""


def mirror(kind: type, **types: Any) -> Any:
    """Return a wire type with the fields and defaults of a dataclass.

    Parameters
    ----------
    kind
        The dataclass. Its integers are counts.
    types
        Types of fields in place of those of the dataclass; ``None`` leaves a field out.
    """
    hints = get_type_hints(kind)
    made: list[Any] = []
    for entry in fields(kind):
        known = Count if hints[entry.name] is int else hints[entry.name]
        wire_type = types.get(entry.name, known)
        if wire_type is None:
            continue
        if entry.default is not MISSING:
            made.append((entry.name, wire_type, entry.default))
        elif entry.default_factory is not MISSING:
            made.append(
                (entry.name, wire_type, msgspec.field(default_factory=entry.default_factory))
            )
        else:
            made.append((entry.name, wire_type))
    return msgspec.defstruct(f"Wire{kind.__name__}", made, bases=(Strict,))


def as_wire(item: Any, kind: type[_Wire], **members: Any) -> _Wire:
    """Return a wire object with the fields of an object, except for the given members."""
    for name in kind.__struct_fields__:
        if name not in members:
            entry = getattr(item, name)
            members[name] = dict(entry) if isinstance(entry, Mapping) else entry
    return kind(**members)


def from_wire(wire: msgspec.Struct, kind: type[_Item], **members: Any) -> _Item:
    """Return a dataclass with the fields of a wire object, except for the given members."""
    names = (entry.name for entry in fields(cast(Any, kind)))
    return kind(**{name: getattr(wire, name) for name in names if name not in members}, **members)


@cache
def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a wire type."""
    schema = msgspec.json.schema(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def decode(data: bytes, kind: type[_Wire], file: str, marker: str | None = None) -> _Wire:
    """Decode a JSON text into a wire type.

    Parameters
    ----------
    data, kind
        The text and the type.
    file
        Name of the file, for findings.
    marker
        What the member ``format`` must say, for types that have one; their member ``version``
        must be 1.

    Raises
    ------
    InputError
        With every departure from the type's schema, each with its JSON path; or with the members
        that an object has twice, of which a decoder would take the last in silence.
    """
    try:
        decoded = msgspec.json.decode(data, type=kind)
        twice = repeated_members(data)
        if twice:
            raise InputError(twice).in_file(file)
        return decoded
    except (msgspec.DecodeError, RecursionError) as error:
        findings = _diagnose(data, kind, marker) or [
            Finding("file", str(error), "JSON as the format describes", "correct the file")
        ]
        raise InputError(findings).in_file(file) from None


def encode(item: msgspec.Struct) -> bytes:
    """Return a wire object as laid-out JSON; equal objects give equal bytes.

    Raises
    ------
    TypeError
        It holds what JSON has no word for; numbers of numpy's it has.
    """
    return lay_out(msgspec.to_builtins(item, enc_hook=plain))


def plain(item: object) -> object:
    """Return an integer of numpy's as Python's, which is what JSON knows.

    Raises
    ------
    TypeError
        It is something else.
    """
    import numpy as np  # whoever has an integer of numpy's has loaded it; the start has not

    if isinstance(item, np.integer | np.bool_):
        return item.item()
    raise TypeError(f"{type(item).__name__} {item!r} cannot be written; expected a Python number")


def _diagnose(data: bytes, kind: type[msgspec.Struct], marker: str | None) -> list[Finding]:
    wrong = syntax_finding(data)
    if wrong is not None:
        return [wrong]
    document = json.loads(data)
    if marker is not None and isinstance(document, dict):
        header = _header_finding(document, marker)
        if header is not None:
            return [header]
    return schema_findings(document, schema_of(kind))


def _header_finding(document: dict[str, Any], marker: str) -> Finding | None:
    """Say that the file is of another format or version; then nothing else is worth saying."""
    if document.get("format") != marker:
        found = quoted(document["format"]) if "format" in document else "nothing"
        return Finding("format", found, quoted(marker), "name a file of this format")
    version = document.get("version")
    if isinstance(version, int) and version > 1:
        return Finding("version", str(version), "1", "install a newer milp_plan to read this file")
    return None


def lay_out(document: Any) -> bytes:
    """Return a document as UTF-8 JSON; containers longer than a line are broken into lines."""
    return (_laid_out(document, 0) + "\n").encode()


def _laid_out(item: Any, indent: int) -> str:
    flat = json.dumps(item, ensure_ascii=False)
    if indent + len(flat) <= _WIDTH or not isinstance(item, dict | list | tuple):
        return flat
    inner = indent + 1
    if isinstance(item, dict):
        opening, closing = "{}"
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(entry, inner)}"
            for key, entry in item.items()
        ]
    else:
        opening, closing = "[]"
        parts = [_laid_out(entry, inner) for entry in item]
    gap = "\n" + " " * inner
    return f"{opening}{gap}{f',{gap}'.join(parts)}\n{' ' * indent}{closing}"
