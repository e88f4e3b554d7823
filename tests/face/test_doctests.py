"""The examples in the docstrings of the public face do what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import iter_modules

import pytest

from milp_plan import face
from tests.run.cases import REPOSITORY

MODULES = ["milp_plan", *(f"milp_plan.face.{entry.name}" for entry in iter_modules(face.__path__))]
WITH_EXAMPLES = {
    "milp_plan",
    *(
        f"milp_plan.face.{name}"
        for name in ("model", "models", "networks", "reasons", "variants", "verbs")
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_do_what_they_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testmod(import_module(name), optionflags=flags)
    assert found.failed == 0
    assert (found.attempted > 0) == (name in WITH_EXAMPLES)
