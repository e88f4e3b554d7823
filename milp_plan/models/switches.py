"""A formulation's card and switches as plain data, to be known without its code."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from enum import Enum, StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .protocol import Card

PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Switch:
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
    """

    name: str
    kind: Any
    default: Any
    help: str
    required: bool


@dataclass(frozen=True)
class Described:
    """What a formulation says about itself, as plain data."""

    card: Card
    handles: type
    switches: tuple[Switch, ...]


@dataclass(frozen=True)
class Member:
    """A member of an enumeration that only the formulation knows."""

    name: str


def described(options: type) -> tuple[Switch, ...]:
    """Describe a formulation's ``Options``."""
    hints = get_type_hints(options)
    found = []
    for entry in fields(options):
        made = entry.default_factory
        default = entry.default if made is MISSING else made()
        said = str(entry.metadata.get("help", ""))
        kind, required = _kind(hints[entry.name]), default is MISSING
        found.append(Switch(entry.name, kind, _plain(default), said, required))
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


def options_type(switches: tuple[Switch, ...]) -> type:
    """Make a frozen dataclass that has these switches."""
    made = []
    for switch in switches:
        kind = _restored(switch.kind)
        more: dict[str, Any] = {} if switch.required else {"default": _default(kind, switch)}
        made.append((switch.name, kind, field(metadata={"help": switch.help}, **more)))
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


def _default(kind: Any, switch: Switch) -> Any:
    return _member(kind, switch.default) if isinstance(switch.default, Member) else switch.default


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
