"""Fields of a deployment as text."""

from __future__ import annotations

from dataclasses import fields

from milp_plan.core import Finding, InputError
from milp_plan.kinds.training.formats import ALIASES

from .problem import Deployment


def fixed_number(text: str) -> tuple[str, int]:
    """Read ``field=number`` for a field of a deployment.

    Raises
    ------
    InputError
        No field of that name, or no number above 0.
    """
    name, _, value = text.partition("=")
    name = ALIASES.get(name.strip().lower(), name.strip().lower().replace("-", "_"))
    known = [field.name for field in fields(Deployment)]
    if name not in known:
        expected = f"one of {', '.join(known)}, with =number"
        raise InputError([Finding("--fix", repr(text), expected, "correct it")])
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise InputError([Finding(f"--fix {name}", repr(value), "a number above 0", "correct it")])
    return name, number
