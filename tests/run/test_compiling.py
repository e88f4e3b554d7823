"""Loops that a run meets uncompiled are compiled by another process."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from milp_plan.core.compiled import compiled, kept
from milp_plan.planners.sharding.trees import tree_search
from milp_plan.run import compiling
from milp_plan.run.compiling import SHARDING_SEARCH, Compiling
from milp_plan.run.loops import PARTS

pytestmark = pytest.mark.untraced


def never_called(number: int) -> int:
    """Return the number."""
    return number


def test_a_loop_is_kept_once_it_was_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    loop = compiled(never_called)
    assert not kept(loop)
    assert loop(7) == 7
    assert kept(loop)
    assert kept(compiled(never_called))
    assert kept(never_called)  # nothing to compile


def test_the_search_is_a_part_of_what_is_compiled_in_advance() -> None:
    assert SHARDING_SEARCH in PARTS


def test_nothing_is_started_where_loops_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "kept", lambda _: True)
    idle = Compiling(SHARDING_SEARCH, tree_search)
    assert not idle.at_work
    idle.wait(60.0)


def test_the_process_ends_by_itself_or_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "kept", lambda _: False)
    unknown = Compiling("no such part", tree_search)
    unknown.wait(60.0)
    assert not unknown.at_work
    busy = Compiling(SHARDING_SEARCH, tree_search)
    assert busy.at_work
    process = busy.process
    busy.wait(0.0)
    assert process is not None
    assert process.returncode is not None
    assert not busy.at_work
