"""Answers of commands with every amount in nanoseconds and bytes: what twins must have alike."""

from __future__ import annotations

import re
from fractions import Fraction
from math import isclose
from typing import Any

from milp_plan.core.quantity import BYTES, NANOSECONDS

FACTORS = {**NANOSECONDS, **BYTES}
"""The table itself is tested against literals in ``tests/core/test_quantity.py``."""

_WRITTEN = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?) (" + "|".join(sorted(FACTORS)) + r")\b")
_NAME = re.compile(r"\S+-memory[\d.]+\S*")
"""Of a case: it says how much memory there is."""

_EXPONENT = re.compile(r"(?<![\w-])\d+(?:\.\d+)?e[+-]?\d+", re.IGNORECASE)

TIMES = ("time", "time_bound", "makespan", "span", "bubble", "time_per_micro_batch")
SIZES = ("memory_limit", "peak_memory")
"""Members of the answers of ``pipeline`` in units of the model."""

PASSING = (
    *("file", "fingerprint", "instance", "key", "model_hash", "seconds", "phases", "started"),
    *("unit", "ticks_per_unit", "amount_units", "time_unit", "size_unit", "stop", "again"),
)
"""Members that differ between twins, or between runs of one problem."""


def exponents(text: str) -> list[str]:
    """Return the numbers of a text that are written with an exponent."""
    return _EXPONENT.findall(text)


def told(text: str) -> tuple[str, list[Fraction]]:
    """Return a text without its amounts, and these in nanoseconds and bytes."""
    found = [
        Fraction(match[1].replace(",", "")) * FACTORS[match[2]] for match in _WRITTEN.finditer(text)
    ]
    bare = _NAME.sub("NAME", _WRITTEN.sub("AMOUNT", text))
    return re.sub(r"[\s─]+", " ", bare), found


def amounts(answer: Any) -> Any:
    """Return an answer with its amounts in nanoseconds and bytes, without what may differ."""
    time = FACTORS.get((answer.get("amount_units") or {}).get("time"), 1)
    size = FACTORS.get((answer.get("amount_units") or {}).get("size"), 1)
    factor = {"things": 1, "time": time, "size": size, "value": FACTORS.get(answer.get("unit"), 1)}
    found = _plain(answer, factor)
    for names, unit in ((TIMES, time), (SIZES, size)):
        of_model = (name for name in names if type(answer.get(name)) in (int, float))
        found |= {name: _scaled(answer[name], unit) for name in of_model}
    return found


def _plain(item: Any, factor: dict[str, int], name: str = "") -> Any:
    if isinstance(item, dict):
        if name == "components_in_unit":
            return {key: _scaled(text, factor[_sort(key)]) for key, text in item.items()}
        passed = (key for key in item if key not in PASSING and not key.endswith("_file"))
        return {key: _plain(item[key], factor, key) for key in passed}
    if isinstance(item, list):
        return [_plain(entry, factor, name) for entry in item]
    if name.endswith("_in_unit") and item is not None:
        return _scaled(item, factor["value"])
    return told(item) if isinstance(item, str) else item


def _sort(component: str) -> str:
    """What a component counts, read from its name alone."""
    if component in ("added_runs", "energy"):
        return "things"
    sizes = ("peak_memory", "peak_host", "host_memory")
    return "size" if component.startswith(sizes) else "time"


def _scaled(number: str | float, factor: int) -> Fraction:
    return Fraction(str(number)) * factor


def alike(one: Any, two: Any, where: str = "answer") -> None:
    """Compare two answers: texts by their amounts to six digits, all else exactly."""
    assert type(one) is type(two), (where, one, two)
    if isinstance(one, dict):
        assert list(one) == list(two), where
        for key, entry in one.items():
            alike(entry, two[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), (where, one, two)
        for place, (a, b) in enumerate(zip(one, two, strict=True)):
            alike(a, b, f"{where}[{place}]")
    elif isinstance(one, Fraction):
        assert isclose(one, two, rel_tol=2e-5), (where, float(one), float(two))
    else:
        assert one == two, (where, one, two)
