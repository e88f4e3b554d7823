"""Numbers of another type than a problem computes with: numpy's, floats, texts.

Problems are exact. A numpy integer overflows and a float rounds, so both are refused, in words;
:class:`milp_plan.Model` takes them and turns them into integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, NamedTuple

from .errors import Finding

_REMEDY = "write int(...) around it, or build the problem with milp_plan.Model"


class _Exact(NamedTuple):
    """A field of exact numbers: its name, the types it may have, and whether it is a table."""

    name: str
    types: tuple[type, ...]
    table: bool


_KNOWN: dict[type, tuple[_Exact, ...]] = {}


def _exact_fields(kind: type) -> tuple[_Exact, ...]:
    """Fields of a dataclass that are annotated as integers, fractions, or tables of them."""
    if kind in _KNOWN:
        return _KNOWN[kind]
    found = []
    for entry in fields(kind):
        said = str(entry.type)
        table, _, inner = said.rpartition(", ")
        is_table = table.startswith("Mapping[")
        word = inner.removesuffix("]") if is_table else said.removesuffix(" | None")
        if word in ("int", "Fraction"):
            types: tuple[type, ...] = (int,) if word == "int" else (int, Fraction)
            optional = (type(None),) if said.endswith(" | None") else ()
            found.append(_Exact(entry.name, (*types, *optional), is_table))
    _KNOWN[kind] = tuple(found)
    return _KNOWN[kind]


def exactness_findings(where: str, item: Any) -> Iterator[Finding]:
    """List fields of a dataclass whose numbers are of another type than their annotation says.

    Only annotations ``int``, ``Fraction`` (an integer will do), either with ``| None``, and
    mappings to them are looked at.

    Parameters
    ----------
    where
        What it is, with its name.
    item
        The dataclass.
    """
    for name, types, table in _exact_fields(type(item)):
        given = getattr(item, name)
        if table and isinstance(given, Mapping):
            for key, entry in given.items():
                if type(entry) not in types:
                    yield _finding(f"{where}, {name}[{key!r}]", entry, types)
        elif table or type(given) not in types:
            yield _finding(f"{where}, {name}", given, types)


def _finding(where: str, given: Any, types: tuple[type, ...]) -> Finding:
    kind = type(given)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    expected = "an int or a Fraction" if Fraction in types else "an int"
    return Finding(where, f"{given!r} of type {home}{kind.__qualname__}", expected, _REMEDY)
