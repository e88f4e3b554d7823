"""Which tests never run with coverage, and what the collector of garbage leaves alone."""

from __future__ import annotations

import gc
import signal
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TRACED = [HERE / "models" / f"test_{name}.py" for name in ("latency", "pipeline_order", "sets")]
UNTRACED = [HERE / folder for folder in ("models", "pipeline", "planners/experts", "support")]
"""Folders whose tests are all ``untraced``, but for some files; others mark the long ones."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # The suite runs in the background; processes that tests start must hear Ctrl-C all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # thousands of modules and tests come, and nothing goes, until all are collected


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage again from here on; walking the tests each time took a fifth of theirs."""
    gc.collect()
    gc.freeze()
    gc.enable()


@cache
def _is_untraced(path: Path) -> bool:
    return path not in TRACED and any(path.is_relative_to(place) for place in UNTRACED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of these folders before any are chosen by their marks."""
    for item in items:
        if _is_untraced(item.path):
            item.add_marker(pytest.mark.untraced)
