"""The face that formulations see stays small, and nothing stands in it for nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from milp_plan import api
from milp_plan.cli import templates
from milp_plan.models.registry import shipped_folders

MOST_NAMES = 60


def imported(text: str) -> Iterator[str]:
    """Names that a module imports from the face."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "milp_plan.api":
            yield from (alias.name for alias in node.names)


def test_the_face_is_small() -> None:
    assert len(api.__all__) <= MOST_NAMES
    assert all(hasattr(api, name) for name in api.__all__)


def test_every_name_is_used_by_a_formulation_or_by_what_users_start_from() -> None:
    texts = [path.read_text() for path in shipped_folders()[0].rglob("*.py")]
    used = {name for text in [*texts, templates.source("mine")] for name in imported(text)}
    assert used == set(api.__all__)
