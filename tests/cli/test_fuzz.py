"""Damaged files of every format end in a clear error: no traceback, and the file is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit

from .cases import call
from .fuzzing import HANG_S, OFTEN, SELDOM, Victim, attack, processor_s
from .victims import victims

pytestmark = pytest.mark.untraced


@pytest.fixture(scope="module")
def spared(tmp_path_factory: pytest.TempPathFactory) -> list[Victim]:
    found = list(victims(tmp_path_factory.mktemp("victims")))
    assert len({victim.name for victim in found}) == len(found) >= 20
    return found


def _faults(spared: list[Victim], seeds: range, folder: Path, seldom: int) -> list[str]:
    return [
        f"{victim.name}, seed {seed}: {fault}"
        for victim in spared
        for seed in seeds
        for fault in attack(victim, seed, folder, seldom)
    ]


def test_damaged_files(spared: list[Victim], tmp_path: Path) -> None:
    seeds = range(-(-400 // len(spared)))
    assert not _faults(spared, seeds, tmp_path, SELDOM)


NINES = "9" * 40
KNOWN = (
    ("pieces", "repeat = 3", "repeat = 10000000000", "pipeline", Exit.BAD_INPUT, "pieces, repeat"),
    ("pieces", "weight = 1", f"weight = {NINES}9", "pipeline", Exit.BAD_INPUT, "pieces[0]"),
    ("pieces", "repeat = 3", f"repeat = {NINES}", "pipeline", Exit.BAD_INPUT, "pieces, repeat"),
    ("transfer", '_per_host": 4', '_per_host": 10000000000', "pipeline", Exit.BAD_INPUT, "mesh"),
    ("step", '"stage 0"', '"x"', "transform", Exit.BAD_INPUT, "operators of block"),
    ("degrees-before", '"h2"', '"h3"', "migrate", Exit.BAD_INPUT, "before, hosts"),
    ("degrees-after", '"data": 3', f'"data": {NINES}', "migrate", Exit.BAD_INPUT, "degrees"),
    ("sharding", '"usage_limit":5', f'"usage_limit":{NINES}', "bound", Exit.DONE, ""),
    ("sharding-plan", "[0, 1]", "[0, 9]", "export", Exit.BAD_INPUT, "solution"),
    ("schedule-plan", '"head"', '"x"', "export", Exit.BAD_INPUT, "operator"),
    ("sharding-record", '"formulation"', '"formulatiom"', "plot", Exit.DONE, ""),
    ("jobs", "devices = 2", "devices = 18446744073709551616", "sweep", Exit.BAD_INPUT, "devices"),
    ("suite", "seeds = [0, 1]", f"seeds = [0, {NINES}]", "bench", Exit.BAD_INPUT, "seeds"),
    ("suite", "threads = 2", f"threads = {NINES}", "bench", Exit.BAD_INPUT, "threads"),
    ("capture", "aten.mm", "aten.mn", "capture", Exit.BAD_INPUT, "no formula"),
    ("captured-recompute-plan", 'start_ns": 0', 'start_ns": 1', "run", Exit.BAD_INPUT, "not valid"),
    ("packing-plan", "b2", "b" * 50_000, "plot", Exit.DONE, "not valid"),
)
"""What files of the slow test found: the damage, the verb, and what is said of it."""


@pytest.mark.parametrize(("name", "old", "new", "verb", "code", "said"), KNOWN)
def test_what_was_found_once(
    name: str,
    old: str,
    new: str,
    verb: str,
    code: Exit,
    said: str,
    spared: list[Victim],
    tmp_path: Path,
) -> None:
    victim = next(victim for victim in spared if victim.name == name)
    text = victim.path.read_text()
    assert old in text
    path = tmp_path / victim.path.name
    path.write_text(text.replace(old, new, 1))
    words = next(w for w in (*victim.commands, *victim.searching) if w[0] == verb)
    began = processor_s()
    result = call(
        *(str(w).replace("{}", str(path)).replace("{folder}", str(tmp_path)) for w in words)
    )
    assert processor_s() - began < HANG_S
    assert result.exit_code == code
    assert said in result.stderr
    assert str(path) in result.stderr or code is Exit.DONE


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_damaged_files(part: int, spared: list[Victim], tmp_path: Path) -> None:
    assert not _faults(spared, range(100 * part, 100 * part + 100), tmp_path, OFTEN)
