"""Options of a formulation: typed, with clear errors, from Python and as text alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Optional

import pytest

from milp_plan.core import InputError
from milp_plan.models.options import convert, described, options_type, typed
from milp_plan.models.registry import get
from milp_plan.run.model import make_options
from tests.cli.cases import call


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
    count: int = field(default=3, metadata={"help": "how many", "least": 1})


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("symmetry", "false", False),
        ("symmetry", "Yes", True),
        ("symmetry", False, False),
        ("levels", "7", 7),
        ("levels", 7, 7),
        ("share", "0.25", 0.25),
        ("share", 1, 1.0),
        ("label", "a=b", "a=b"),
        ("mode", "slow", Mode.SLOW),
        ("mode", Mode.SLOW, Mode.SLOW),
        ("side", "right", "right"),
        ("cap", "3", 3),
        ("cap", "None", None),
        ("cap", None, None),
        ("old", "1e3", 1000.0),
        ("table", {"a": 1}, {"a": 1}),
        ("count", "1", 1),
    ],
)
def test_values_and_texts_become_typed_values(name: str, given: Any, value: Any) -> None:
    found = typed(Options, {name: given}, "f")
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("symetry", "true", "did you mean 'symmetry'?"),
        ("zzz", "1", "no such option, expected one of symmetry, levels"),
        ("symmetry", "maybe", "option 'symmetry' of f: found 'maybe', expected true or false"),
        ("symmetry", 1, "expected true or false"),
        ("levels", "1.5", "expected an integer"),
        ("levels", 1.5, "expected an integer"),
        ("levels", True, "expected an integer"),
        ("share", "half", "expected a number"),
        ("label", 3, "expected a text"),
        ("mode", "medium", "expected one of fast, slow"),
        ("side", "up", "expected one of left, right"),
        ("cap", "x", "expected an integer or none"),
        ("table", "1", "cannot be given as text"),
        ("count", 0, "found 0, expected an integer of at least 1"),
        ("count", "-3", "found '-3', expected an integer of at least 1"),
    ],
)
def test_wrong_options_say_what_is_expected(name: str, given: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        typed(Options, {name: given}, "f")
    assert words in str(caught.value)


def test_every_wrong_option_is_listed() -> None:
    with pytest.raises(InputError) as caught:
        typed(Options, {"levels": "x", "zzz": 1}, "f")
    assert len(caught.value.findings) == 2


@pytest.mark.parametrize(
    "given", [{"symmetry": "maybe"}, {"load_thresholds": -3}, {"load_thresholds": "many"}]
)
def test_python_checks_types_of_options_like_the_command_line(given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        make_options(get("operator_schedule"), given)
    text = ",".join(f"{name}={value}" for name, value in given.items())
    stated = call("solve", "x.json", "--formulation", "operator_schedule", "--option", text).stderr
    (finding,) = caught.value.findings
    assert finding.expected in stated


def test_the_least_number_survives_isolation() -> None:
    restored = options_type(described(Options))
    with pytest.raises(InputError, match="at least 1"):
        typed(restored, {"count": 0}, "f")


@pytest.mark.parametrize("text", ["symmetry", "=1"])
def test_what_is_no_key_and_value_is_refused(text: str) -> None:
    stated = call("solve", "x.json", "--formulation", "operator_schedule", "--option", text).stderr
    assert "expected key=value" in stated or "no such option" in stated


def test_union_without_none() -> None:
    assert convert(int | str, "a") == "a"
    with pytest.raises(ValueError, match="an integer or a number"):
        convert(int | float, "a")


def test_formulation_without_options() -> None:
    @dataclass(frozen=True)
    class Nothing:
        pass

    with pytest.raises(InputError, match="expected none: it has no options"):
        typed(Nothing, {"a": "1"}, "f")
