"""Seeds of random problems: a few by default, the others behind ``-m slow``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(items: Iterable[Any], number: int) -> list[Any]:
    """Items for ``parametrize``: those after the first ``number`` are slow."""
    return [
        item if place < number else pytest.param(item, marks=pytest.mark.slow)
        for place, item in enumerate(items)
    ]
