"""Switches of a formulation: typed from its options, with clear errors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Optional

import click
import pytest

from milp_plan.cli.switches import convert, parse


class Mode(StrEnum):
    FAST = "fast"
    SLOW = "slow"


@dataclass(frozen=True)
class Options:
    symmetry: bool = True
    levels: int = 5
    share: float = 0.5
    label: str = "x"
    mode: Mode = Mode.FAST
    side: Literal["left", "right"] = "left"
    cap: int | None = None
    old: Optional[float] = None  # noqa: UP045  (both spellings are read)
    table: dict[str, int] | None = None


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("symmetry=false", "symmetry", False),
        ("symmetry=Yes", "symmetry", True),
        ("levels=7", "levels", 7),
        ("share=0.25", "share", 0.25),
        ("label=a=b", "label", "a=b"),
        ("mode=slow", "mode", Mode.SLOW),
        ("side=right", "side", "right"),
        ("cap=3", "cap", 3),
        ("cap=None", "cap", None),
        ("old=1e3", "old", 1000.0),
    ],
)
def test_words_become_typed_values(text: str, key: str, value: Any) -> None:
    found = parse(Options, [text], "f")
    assert found == {key: value}
    assert type(found[key]) is type(value)


def test_the_last_of_one_key_counts() -> None:
    assert parse(Options, ["levels=1", "levels=2", "label="], "f") == {"levels": 2, "label": ""}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("symmetry", "expected key=value"),
        ("symetry=true", "did you mean 'symmetry'?"),
        ("zzz=1", "it has: symmetry, levels"),
        ("symmetry=maybe", "symmetry: found 'maybe', expected true or false"),
        ("levels=1.5", "expected an integer"),
        ("share=half", "expected a number"),
        ("mode=medium", "expected one of fast, slow"),
        ("side=up", "expected one of left, right"),
        ("cap=x", "expected an integer or none"),
        ("table=1", "cannot be given on a command line"),
    ],
)
def test_wrong_switches_say_what_is_expected(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        parse(Options, [text], "f")
    assert words in caught.value.message


def test_union_without_none() -> None:
    assert convert(int | str, "a") == "a"
    with pytest.raises(ValueError, match="an integer or a number"):
        convert(int | float, "a")


def test_formulation_without_options() -> None:
    @dataclass(frozen=True)
    class Nothing:
        pass

    with pytest.raises(click.BadParameter, match="it has: none"):
        parse(Nothing, ["a=1"], "f")
