"""A problem and its twin in another unit: every verb says equal amounts."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from milp_plan.cli.exits import Exit
from tests.support.amounts import alike, amounts, exponents, told

from .cases import call

LIMIT = ("--time-limit", "30", "--quiet")
TWINS = {"ms GiB": ("ms", "GiB", 1, 1), "us MiB": ("us", "MiB", 10**3, 2**10)}
TWINS |= {"ns bytes": ("ns", "bytes", 10**6, 2**30), "s KiB": ("s", "KiB", 0.001, 2**20)}
"""Units of time and size, and how many of each make a millisecond and a GiB."""


def number(exact: Fraction | int, per_unit: float) -> str:
    """Write a number of milliseconds or GiB in a unit, as a decimal."""
    found = Fraction(exact) * Fraction(str(per_unit))
    return str(found) if found.denominator == 1 else f"{float(found):.10f}".rstrip("0")


class Pipeline:
    """A small pipeline: pieces in milliseconds and GiB, some of them zero or fractions."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.stages, self.batches = rng.choice([(2, 2), (2, 3), (3, 2)])
        parts = [Fraction(n, 2) for n in range(9)]
        self.pieces = [
            [Fraction(rng.choice((1, 2, 5, Fraction(1, 2)))) for _ in range(3)]
            + [rng.choice(parts[:4]) for _ in range(4)]
            for _ in range(self.stages)
        ]
        self.transfer = rng.choice(parts[:3])
        most = max(sum(piece[3:]) for piece in self.pieces)
        self.memory = most * rng.choice((1, 1, 2)) + rng.choice((0, Fraction(1, 2)))

    def write(self, path: Path, twin: str) -> tuple[str, ...]:
        """Write the file of a twin; return the options of ``pipeline``."""
        time, size, per_ms, per_gib = TWINS[twin]
        lines = [f'time_unit = "{time}"', f'size_unit = "{size}"']
        lines.append(f"transfer = {number(self.transfer, per_ms)}")
        names = ("forward", "backward", "weight")
        sizes = ("held_to_backward", "held_to_weight", "gradient", "parameters")
        for piece in self.pieces:
            lines.append("[[pieces]]")
            lines += [f"{n} = {number(p, per_ms)}" for n, p in zip(names, piece[:3], strict=True)]
            lines += [f"{n} = {number(p, per_gib)}" for n, p in zip(sizes, piece[3:], strict=True)]
        path.write_text("\n".join(lines))
        return (
            *("--stages", str(self.stages), "--micro-batches", str(self.batches)),
            *("--times", str(path), "--memory", number(self.memory, per_gib)),
        )


def every_verb(folder: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """Answers of all verbs about a pipeline, for machines and for people."""
    instance, plan = folder / "i.json", folder / "p.json"
    written = ("--instance-output", instance, "--plan-output", plan)
    verbs: dict[str, tuple[str | Path, ...]] = {
        "pipeline": ("pipeline", *words, *LIMIT, *written),
        "info": ("info", instance),
        "bound": ("bound", instance),
        "solve": ("solve", instance, *LIMIT, "--record-folder", folder / "records"),
    }
    if call(*verbs["pipeline"]).exit_code == Exit.DONE:
        asked = ("memory+1GiB", "memory-512MiB", "memory+0.25GiB")
        verbs |= {
            "check": ("check", instance, plan),
            "explain": ("explain", instance, plan, "--quiet"),
            "what if": ("explain", instance, plan, *LIMIT, *(f"--what-if={a}" for a in asked)),
            "diff": ("diff", plan, plan, "--instance", instance),
            "pack": ("pack", instance, plan),
        }
    swept = ("--store-folder", folder / "swept", "--memory", "0.5,0.75,1,1.5", "--bandwidth", "1")
    verbs["sweep"] = ("sweep", instance, *LIMIT, *swept)
    found: dict[str, Any] = {}
    for name, verb in verbs.items():
        people = call(*verb)
        assert not exponents(people.stdout), (name, people.stdout)
        if name in ("info", "bound", "check", "explain", "diff"):
            found[f"{name} for people"] = told(people.stdout)
        answers = [json.loads(line) for line in call(*verb, "--json").stdout.splitlines()]
        found[name] = [amounts(answer) for answer in answers]
    return found


QUICK = (3, 7, 13)
"""Seeds of the default run, a tenth."""

SEEDS = [pytest.param(s, marks=[] if s in QUICK else [pytest.mark.slow]) for s in range(30)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pipeline_and_its_twins(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for twin in TWINS:
        folder = tmp_path / twin.replace(" ", "-")
        folder.mkdir()
        found[twin] = every_verb(folder, Pipeline(seed).write(folder / "model.toml", twin))
    first, *others = TWINS
    for other in others:
        alike(found[first], found[other], other)
