"""Seeds of random problems: a few by default, the others behind ``-m slow``."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, few: int) -> list[Any]:
    """Numbers below ``count`` for ``parametrize``; those from ``few`` on are slow."""
    return [n if n < few else pytest.param(n, marks=pytest.mark.slow) for n in range(count)]
