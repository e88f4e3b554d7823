"""Which tests run first and without coverage: most of what takes long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
UNTRACED = [
    HERE / folder
    for folder in ("formulation", "pipeline", "planners/experts", "planners/pipelines", "support")
]
"""Folders whose tests are all ``untraced``; other folders mark the long ones."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of these folders before any are chosen by their marks."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in UNTRACED):
            item.add_marker(pytest.mark.untraced)
