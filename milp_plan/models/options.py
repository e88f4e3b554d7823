"""Options of a formulation: typed and checked, and as plain data without its code."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from enum import Enum, StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from milp_plan.core import Finding, InputError
from milp_plan.io.defects import nearest

from .protocol import Card

PLAIN = (bool, int, float, str, type(None))

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


@dataclass(frozen=True)
class OptionField:
    """One field of ``Options``.

    Parameters
    ----------
    name, help
        Of the field.
    kind
        Its type, with ``("enum", name, members)`` for an enumeration, ``("union", kinds)`` for a
        choice of types, and the text of a type that cannot be given from outside.
    default
        The name of the member for an enumeration; ``None`` unless the value is plain.
    required
        Whether there is no default.
    least
        Least number that it may be, if there is one.
    """

    name: str
    kind: Any
    default: Any
    help: str
    required: bool
    least: float | None = None


@dataclass(frozen=True)
class Described:
    """What a formulation says about itself, as plain data."""

    card: Card
    handles: type
    options: tuple[OptionField, ...]


@dataclass(frozen=True)
class Member:
    """A member of an enumeration that only the formulation knows."""

    name: str


def described(options: type) -> tuple[OptionField, ...]:
    """Describe a formulation's ``Options``."""
    hints = get_type_hints(options)
    found = []
    for entry in fields(options):
        made = entry.default_factory
        default = entry.default if made is MISSING else made()
        said = str(entry.metadata.get("help", ""))
        kind, required = _kind(hints[entry.name]), default is MISSING
        least = entry.metadata.get("least")
        found.append(OptionField(entry.name, kind, _plain(default), said, required, least))
    return tuple(found)


def _kind(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return ("union", tuple(_kind(part) for part in get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = tuple((member.name, _plain(member.value)) for member in kind)
        return ("enum", kind.__name__, members)
    if kind in PLAIN or get_origin(kind) is Literal:
        return kind
    return str(kind)


def _plain(given: Any) -> Any:
    """Return a value that any process can read; ``None`` for one that only its module knows."""
    if isinstance(given, Enum):
        return Member(given.name)
    if isinstance(given, list | tuple):
        return tuple(_plain(entry) for entry in given)
    return given if type(given) in PLAIN else None


def options_type(entries: tuple[OptionField, ...]) -> type:
    """Make a frozen dataclass that has these fields."""
    made = []
    for entry in entries:
        kind = _restored(entry.kind)
        more: dict[str, Any] = {} if entry.required else {"default": _default(kind, entry)}
        metadata = {"help": entry.help, "least": entry.least}
        made.append((entry.name, kind, field(metadata=metadata, **more)))
    return make_dataclass("Options", made, frozen=True)


def _restored(kind: Any) -> Any:
    if isinstance(kind, str):
        return types.new_class(kind)  # a name for messages; nothing is of this type
    if not isinstance(kind, tuple):
        return kind
    if kind[0] == "enum":
        named = list(kind[2])
        texts = all(isinstance(value, str) for _, value in named)
        return StrEnum(kind[1], named) if texts else Enum(kind[1], named)
    return Union[tuple(_restored(part) for part in kind[1])]  # noqa: UP007 (made at run time)


def _default(kind: Any, entry: OptionField) -> Any:
    return _member(kind, entry.default) if isinstance(entry.default, Member) else entry.default


def _member(kind: Any, given: Member) -> Any:
    """Find a member by name among the enumerations of a type."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, Enum) and given.name in part.__members__:
            return part[given.name]
    raise ValueError(f"no enumeration of {kind} has a member {given.name!r}")


def given(options: Any) -> dict[str, Any]:
    """Return what differs from the defaults, as plain data."""
    return {
        entry.name: _plain(getattr(options, entry.name))
        for entry in fields(options)
        if entry.default is MISSING or getattr(options, entry.name) != entry.default
    }


def made(options: type, chosen: Mapping[str, Any]) -> Any:
    """Return a formulation's own options from :func:`given` ones."""
    hints = get_type_hints(options)
    return options(
        **{
            name: _member(hints[name], entry) if isinstance(entry, Member) else entry
            for name, entry in chosen.items()
        }
    )


def typed(options: type, given: Mapping[str, Any], formulation: str) -> dict[str, Any]:
    """Return arguments of a formulation's ``Options``, each a value of its type.

    Parameters
    ----------
    options
        The dataclass.
    given
        Values, or their texts as a command line has them.
    formulation
        Its name, for messages.

    Raises
    ------
    InputError
        Names that are no options, and values that are not of their option's type.
    """
    hints = get_type_hints(options)
    known = {entry.name: entry for entry in fields(options)}
    chosen: dict[str, Any] = {}
    findings = []
    for name, value in given.items():
        where = f"option {name!r} of {formulation}"
        if name not in known:
            names = f"one of {', '.join(known)}" if known else "none: it has no options"
            remedy = nearest(name, known, "correct the name")
            findings.append(Finding(where, "no such option", names, remedy))
            continue
        try:
            chosen[name] = convert(hints[name], value, known[name].metadata.get("least"))
        except ValueError as error:
            findings.append(Finding(where, repr(value), str(error), "correct it"))
    if findings:
        raise InputError(findings)
    return chosen


def convert(kind: Any, value: Any, least: float | None = None) -> Any:
    """Return a value of a type, given as such or as text.

    Raises
    ------
    ValueError
        It is none; the message says what is expected.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _of_union(get_args(kind), value, least)
    if origin is Literal:
        return _one_of({str(choice): choice for choice in get_args(kind)}, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        choices = {str(choice.value): choice for choice in kind}
        return _one_of(choices, value.value if isinstance(value, Enum) else value)
    if kind is bool:
        return _truth(value)
    if kind in (int, float):
        return _number(kind, value, least)
    if kind is str and isinstance(value, str):
        return value
    if kind is str:
        raise ValueError("a text")
    plain = get_origin(kind) or kind
    if isinstance(plain, type) and isinstance(value, plain):
        return value
    raise ValueError(f"a value of type {kind}, which cannot be given as text")


def _of_union(kinds: tuple[Any, ...], value: Any, least: float | None) -> Any:
    if type(None) in kinds and str(value).lower() == "none":
        return None
    expected = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return convert(kind, value, least)
            except ValueError as error:
                expected.append(str(error))
    if type(None) in kinds:
        expected.append("none")
    raise ValueError(" or ".join(expected))


def _truth(value: Any) -> bool:
    word = str(value).lower() if isinstance(value, str | bool) else ""
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError("true or false")


def _number(kind: Callable[[Any], float], value: Any, least: float | None) -> float:
    expected = "an integer" if kind is int else "a number"
    expected += "" if least is None else f" of at least {least}"
    given = (str, int) if kind is int else (str, int, float)
    if isinstance(value, bool) or not isinstance(value, given):
        raise ValueError(expected)
    try:
        number = kind(value)
    except ValueError:
        raise ValueError(expected) from None
    if least is not None and not number >= least:
        raise ValueError(expected)
    return number


def _one_of(choices: dict[str, Any], value: Any) -> Any:
    if str(value) not in choices:
        raise ValueError(f"one of {', '.join(choices)}")
    return choices[str(value)]
