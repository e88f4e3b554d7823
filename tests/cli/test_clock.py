"""Time limits of the program count from the start of its process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from milp_plan.cli import main as program
from milp_plan.cli.main import main
from milp_plan.core.budget import now, process_began

ROUNDING_S = 1e-6
"""A clock may count from far away: its readings are rounded, and so are their differences."""


def test_start_lies_before_everything_the_process_has_done() -> None:
    used = time.process_time()
    threads = os.cpu_count() or 1
    start = process_began()
    assert now() - start >= used / threads - 0.02


def test_without_the_system_it_is_processor_time() -> None:
    used = time.process_time()
    start = process_began(Path("/nonexistent"))
    assert now() - start >= used - ROUNDING_S
    assert used > 0


def test_name_of_the_program_may_hold_anything(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - 5) * os.sysconf("SC_CLK_TCK"))
    stat.write_text(f"1 (a) b) S {' '.join(['7'] * 18)} {ticks} 7 7")
    start = process_began(stat)
    assert now() - start >= 4.9


def test_program_passes_its_start_and_a_call_from_python_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    monkeypatch.setattr(program.click.Group, "main", lambda *_, **given: seen.append(given))
    main()
    main.main([])
    assert seen[0]["obj"] <= now()
    assert "obj" not in seen[1]
