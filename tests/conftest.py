"""Which tests never run with coverage, and what the collector of garbage leaves alone."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import milp_plan.face.models  # bound before tests replace ``milp_plan.run.solve``
import milp_plan.face.verbs  # noqa: F401

HERE = Path(__file__).parent
TRACED = [HERE / "models" / f"test_{name}.py" for name in ("latency", "pipeline_order", "sets")]
UNTRACED = [HERE / folder for folder in ("models", "pipeline", "planners/experts", "support")]
"""Folders whose tests are all ``untraced``, but for some files; others mark the long ones."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # The suite runs in the background; processes that tests start must hear Ctrl-C all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Loaded machines draw slowly, which says nothing about what is tested.
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")


WORKER = os.environ.get("PYTEST_XDIST_WORKER")
"""The process of tests this is, where there are several; the second goes backwards.

pytest rewrites and compiles each file of tests, most of the time of a first collection, and keeps
it on disk. Two processes that go the same way both do so for every file; these meet in the middle.
"""


gc.disable()  # thousands of modules and tests come, and nothing goes, until all are collected


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage again from here on; walking the tests each time took a fifth of theirs."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn what folders hold around, in the process that goes backwards."""
    report = yield
    if WORKER == "gw1" and isinstance(collector, pytest.Directory):
        report.result.reverse()
    return report


@cache
def _is_untraced(path: Path) -> bool:
    return path not in TRACED and any(path.is_relative_to(place) for place in UNTRACED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of these folders before any are chosen by their marks; files in one order."""
    if WORKER:
        items.sort(key=attrgetter("path"))
    for item in items:
        if _is_untraced(item.path):
            item.add_marker(pytest.mark.untraced)
