"""Switches of a formulation on the command line: ``--option key=value``, typed and checked."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def parse(kind: type, texts: Iterable[str], formulation: str) -> dict[str, Any]:
    """Turn ``key=value`` texts into arguments of a formulation's ``Options``.

    Parameters
    ----------
    kind
        The dataclass of the options.
    texts
        Texts of the command line; a later one of the same key counts.
    formulation
        Name of the formulation, for messages.

    Raises
    ------
    click.BadParameter
        No ``=``, an unknown key, or a value that is not of the key's type.
    """
    hints = get_type_hints(kind)
    known = {entry.name: hints[entry.name] for entry in fields(kind)}
    chosen: dict[str, Any] = {}
    for text in texts:
        key, equals, word = text.partition("=")
        if not equals:
            raise _bad(f"{text!r}: expected key=value, for example {_example(known)}")
        if key not in known:
            close = get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else "correct the name"
            names = ", ".join(known) or "none"
            raise _bad(f"{formulation!r} has no option {key!r}; it has: {names}; {hint}")
        try:
            chosen[key] = convert(known[key], word)
        except ValueError as error:
            raise _bad(f"{key}: found {word!r}, expected {error}") from None
    return chosen


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="'--option'")


def _example(known: dict[str, Any]) -> str:
    return f"{next(iter(known), 'key')}=value"


def convert(kind: Any, word: str) -> Any:
    """Read one word as a value of a type.

    Raises
    ------
    ValueError
        It is none; the message says what is expected.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(kind), word)
    if origin is Literal:
        return _one_of({str(choice): choice for choice in get_args(kind)}, word)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of({str(choice.value): choice for choice in kind}, word)
    if kind is bool:
        return _convert_bool(word)
    if kind is str:
        return word
    if kind in (int, float):
        return _convert_number(kind, word)
    raise ValueError(f"a value of type {kind}, which cannot be given on a command line")


def _convert_union(kinds: tuple[Any, ...], word: str) -> Any:
    if type(None) in kinds and word.lower() == "none":
        return None
    expected = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return convert(kind, word)
            except ValueError as error:
                expected.append(str(error))
    if type(None) in kinds:
        expected.append("none")
    raise ValueError(" or ".join(expected))


def _convert_bool(word: str) -> bool:
    if word.lower() in _TRUE | _FALSE:
        return word.lower() in _TRUE
    raise ValueError("true or false")


def _convert_number(kind: Callable[[str], float], word: str) -> float:
    try:
        return kind(word)
    except ValueError:
        raise ValueError("an integer" if kind is int else "a number") from None


def _one_of(choices: dict[str, Any], word: str) -> Any:
    if word not in choices:
        raise ValueError(f"one of {', '.join(choices)}")
    return choices[word]
