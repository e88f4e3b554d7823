"""Finds numbers of inexact types in problems: NumPy integers, floats, texts; reads words.

Problems are exact. A NumPy integer overflows and a float rounds, so both are refused;
:class:`milp_plan.Model` accepts them and converts them to integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

from .errors import Finding, InputError

_REMEDY = "write int(...) around it, or build the problem with milp_plan.Model"


class _Exact(NamedTuple):
    """A field of exact numbers: its name, its possible types, and whether it is a table."""

    name: str
    types: tuple[type, ...]
    table: bool


_KNOWN: dict[type, tuple[_Exact, ...]] = {}


def _exact_fields(kind: type) -> tuple[_Exact, ...]:
    """Return fields of a dataclass that are annotated as integers, fractions, or tables of them."""
    if kind in _KNOWN:
        return _KNOWN[kind]
    exact = []
    for entry in fields(kind):
        annotation = str(entry.type)
        table, _, inner = annotation.rpartition(", ")
        is_table = table.startswith("Mapping[")
        word = inner.removesuffix("]") if is_table else annotation.removesuffix(" | None")
        if word in ("int", "Fraction"):
            types: tuple[type, ...] = (int,) if word == "int" else (int, Fraction)
            optional = (type(None),) if annotation.endswith(" | None") else ()
            exact.append(_Exact(entry.name, (*types, *optional), is_table))
    _KNOWN[kind] = tuple(exact)
    return _KNOWN[kind]


def exactness_findings(where: str, item: Any) -> Iterator[Finding]:
    """Report fields of a dataclass whose numbers do not have the annotated type.

    Only annotations ``int``, ``Fraction`` (an integer is accepted), either with ``| None``, and
    mappings to them are checked.

    Parameters
    ----------
    where
        Description of the object, with its name.
    item
        The dataclass.
    """
    for name, types, table in _exact_fields(type(item)):
        value = getattr(item, name)
        if table and isinstance(value, Mapping):
            for key, entry in value.items():
                if type(entry) not in types:
                    yield _finding(f"{where}, {name}[{key!r}]", entry, types)
        elif table or type(value) not in types:
            yield _finding(f"{where}, {name}", value, types)


def spell_words(item: Any, kinds: Mapping[str, type[StrEnum]]) -> None:
    """Replace texts in fields of a frozen dataclass by the members of enumerations they spell.

    A text equals its member, but is not that member, and code may compare either way.

    Parameters
    ----------
    item
        The dataclass, while it is made.
    kinds
        Field -> its enumeration.

    Raises
    ------
    InputError
        Something that is no member.
    """
    for name, kind in kinds.items():
        value = getattr(item, name)
        if type(value) is not kind:
            if value not in tuple(kind):
                expected = f"one of {', '.join(kind)}"
                raise InputError([Finding(name, repr(value), expected, "correct it")])
            object.__setattr__(item, name, kind(value))


def _finding(where: str, value: Any, types: tuple[type, ...]) -> Finding:
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    expected = "an int or a Fraction" if Fraction in types else "an int"
    return Finding(where, f"{value!r} of type {home}{kind.__qualname__}", expected, _REMEDY)
