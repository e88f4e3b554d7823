"""Damaged files of every format end in a clear error: no traceback, and the file is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fuzzing import Victim, attack
from .victims import victims

pytestmark = pytest.mark.untraced


@pytest.fixture(scope="module")
def spared(tmp_path_factory: pytest.TempPathFactory) -> list[Victim]:
    found = list(victims(tmp_path_factory.mktemp("victims")))
    assert len({victim.name for victim in found}) == len(found) >= 20
    return found


def _faults(spared: list[Victim], seeds: range, folder: Path) -> list[str]:
    return [
        f"{victim.name}, seed {seed}: {fault}"
        for victim in spared
        for seed in seeds
        for fault in attack(victim, seed, folder)
    ]


def test_damaged_files(spared: list[Victim], tmp_path: Path) -> None:
    seeds = range(-(-2000 // len(spared)))
    assert not _faults(spared, seeds, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_damaged_files(part: int, spared: list[Victim], tmp_path: Path) -> None:
    assert not _faults(spared, range(100 * part, 100 * part + 100), tmp_path)
