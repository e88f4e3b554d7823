"""Options that change a problem as it is read, and how their text is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from milp_plan.core import Amount, Finding, InputError, Units
from milp_plan.core.quantity import plain


@dataclass(frozen=True)
class Change:
    """An option of a kind that changes a problem as it is read.

    Parameters
    ----------
    name, help
        Name in files and in Python, and help text.
    read
        Reads its value from text, or raises ``ValueError`` with what is expected; ``None`` for
        a flag.
    form
        Placeholder for the value, in a word.
    """

    name: str
    help: str
    read: Callable[[str], Any] | None = None
    form: str = "VALUE"

    @property
    def option(self) -> str:
        """Name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def usage(self) -> str:
        """Name on the command line with its placeholder: ``"--host SIZE@RATE"``."""
        return self.option if self.read is None else f"{self.option} {self.form}"


def positive(text: str) -> Fraction:
    """Read an exact positive number, such as ``0.8`` or ``4/5``."""
    try:
        fraction = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text!r} is no number; write for example 0.8 or 4/5") from None
    if fraction <= 0:
        raise ValueError(f"{text} is not positive")
    return fraction


MAX_STEPS = 10_000
"""Maximum number of values in a range."""


def steps(text: str) -> list[Fraction]:
    """Read exact positive numbers, such as ``0.5,1,2``, or first:last:step.

    Raises
    ------
    ValueError
        A part is not a number or a range, or a range is too long.
    """
    values: list[Fraction] = []
    for part in text.split(","):
        ends = [positive(word) for word in part.split(":")]
        if len(ends) == 1:
            values += ends
        elif len(ends) == 3 and ends[0] <= ends[1] and (ends[1] - ends[0]) / ends[2] < MAX_STEPS:
            number = int((ends[1] - ends[0]) / ends[2])
            values += [ends[0] + ends[2] * place for place in range(number + 1)]
        else:
            raise ValueError(f"{part!r} is no range; write first:last:step, such as 0.5:1.2:0.1")
    return values


def count(text: str) -> int:
    """Read an integer of at least 1."""
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is no integer of at least 1")
    return int(text)


def size(text: str) -> Fraction:
    """Read an exact size in bytes: ``8GiB``, ``80GB``, ``1.5GiB``, a number of bytes."""
    return _bytes(text, "8GiB, 80GB or 17179869184")


def rate(text: str) -> Fraction:
    """Read bytes per second: ``25GB/s``, ``25GB``, a number of bytes."""
    speed = _bytes(text, "25GB/s", rate=True)
    if speed < 1:
        raise ValueError(f"{text!r} is less than a byte per second")
    return speed


def _bytes(text: str, examples: str, *, rate: bool = False) -> Fraction:
    try:
        return Amount.read(text, rate=rate).in_bytes()
    except ValueError:
        what = "rate" if rate else "size"
        raise ValueError(f"{text!r} is no {what}; write for example {examples}") from None


class Host(NamedTuple):
    """Memory and bandwidth of a host, in the units of the command line."""

    memory: Amount
    rate: Amount

    def of(self, units: Units) -> tuple[int, int, int]:
        """Return memory in a problem's bytes, and bandwidth as bytes in a number of ticks.

        Raises
        ------
        InputError
            Its units have no meaning in the problem, or the bandwidth rounds to nothing.
        """
        memory = counted("--host", units.counts, self.memory)
        moved = counted("--host", lambda amount: units.rate(amount)[0], self.rate)
        if moved < 1:
            found, expected = str(self.rate), "a bandwidth that moves something"
            raise InputError([Finding("--host", found, expected, "name a larger one")])
        return memory, moved, units.rate(self.rate)[1]


def host(text: str) -> Host:
    """Read memory and bandwidth of a host, such as ``512GiB@25GB/s``."""
    memory, at, rate = text.partition("@")
    try:
        if not at:
            raise ValueError
        parsed = Host(Amount.read(memory), Amount.read(rate, rate=True))
    except ValueError:
        raise ValueError(f"{text!r} is no host; write for example 512GiB@25GB/s") from None
    if not parsed.rate.number:
        raise ValueError(f"{text!r} has no bandwidth; write for example 512GiB@25GB/s")
    return parsed


def counted_exactly(where: str, convert: Callable[[Amount], Fraction], amount: Amount) -> Fraction:
    """Return an amount in ticks or bytes of a problem.

    Parameters
    ----------
    where
        Name of the option or file member, for the finding.
    convert
        Conversion of the problem's :class:`~milp_plan.core.Units`.
    amount
        The amount as it was written.

    Raises
    ------
    InputError
        Its unit has no meaning in the problem.
    """
    try:
        return convert(amount)
    except ValueError as error:
        remedy = f"write a plain number, such as {plain(amount.number)}"
        expected = f"an amount in units of the problem ({error})"
        raise InputError([Finding(where, str(amount), expected, remedy)]) from None


def counted(where: str, convert: Callable[[Amount], Fraction], amount: Amount) -> int:
    """Return :func:`counted_exactly`, rounded down."""
    return int(counted_exactly(where, convert, amount))


Goal = TypeVar("Goal", bound=StrEnum)


def objective_of(changes: Mapping[str, Any], known: type[Goal]) -> Goal | None:
    """Return the requested objective; ``None`` if none is requested.

    Raises
    ------
    InputError
        The kind does not have it.
    """
    word = changes.get("objective")
    if word is None:
        return None
    if word not in [entry.value for entry in known]:
        expected = f"one of {', '.join(entry.value for entry in known)}"
        raise InputError([Finding("--objective", repr(word), expected, "choose one of these")])
    return known(word)


def changes_to_text(changes: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return changes as plain data that :func:`~.kinds.changes_from_text` reads."""
    return {
        name: True if value is True else _text(value)
        for name, value in changes.items()
        if value is not None and value is not False
    }


def _text(value: Any) -> str:
    return "@".join(map(str, value)) if isinstance(value, tuple) else str(value)
