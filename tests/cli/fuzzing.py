"""Ways to damage files, and what a command may do with what results."""

from __future__ import annotations

import gzip
import random
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF

from click.testing import CliRunner

from milp_plan.cli.exits import Exit
from milp_plan.cli.main import main

REFUSALS = {Exit.DONE, Exit.USAGE, Exit.BAD_INPUT, Exit.INFEASIBLE, Exit.NO_PLAN, Exit.NOT_VALID}
"""What a command that plans nothing may end with; a damage need not make a file wrong."""

LIBRARIES = {"report": "bokeh", "run": "torch"}
"""What verbs need that is not always there: with a good file they say so."""

HANG_S = 5.0
"""Processor seconds of a command that hangs."""

SELDOM, OFTEN = 12, 3
"""One in so many files goes to a command that searches or draws: in every run of the tests, and in
the slow ones."""

Command = tuple[str | Path, ...]
"""Words of a command line."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NUMBERS = (b"1e400", b"-1", b"NaN", b"Infinity", b"9" * 40, b"9" * 5000, b'"1"', b"null", b"0.5")
_NUMBERS += (b"true", b"[]", b"{}", b"-0", b"1e-400", b"18446744073709551616", b"0x10", b"\xff")
_NUMBERS += (b"0", b"1", b"3", b"1000", b"10000000000")  # what is often a file as good
_NAMES = (b"", b"\\u0000", b"\\ud800", b"\x1b[31m", b"$\\\\frac{a$", "算子".encode(), b"../../x")


@dataclass(frozen=True)
class Victim:
    """A good file, and the commands that read it.

    In commands ``{}`` stands for the file and ``{folder}`` for the folder it lies in; one in
    ``seldom`` files goes to a command of ``searching``, which takes longer.
    """

    name: str
    path: Path
    commands: tuple[Command, ...]
    searching: tuple[Command, ...] = ()


def damages(data: bytes, rng: random.Random) -> bytes:
    """Return a text with one to three things wrong with it."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_DAMAGES)(data, rng)
    return data


def _truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flipped(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"\0"
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _other_number(data: bytes, rng: random.Random) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data + b"1"
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(_NUMBERS) + data[match.end() :]


def _other_name(data: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb'"([^"\\]*)"', data))
    if not found:
        return rng.choice(_NAMES) + data
    match = rng.choice(found)
    return data[: match.start(1)] + rng.choice(_NAMES) + data[match.end(1) :]


def _missing(data: bytes, rng: random.Random) -> bytes:
    parts = re.split(rb"([,\n])", data)
    place = rng.randrange(len(parts))
    return b"".join(parts[:place] + parts[place + 1 :])


def _twice(data: bytes, rng: random.Random) -> bytes:
    parts = re.split(rb"(?<=[,\n])", data)
    place = rng.randrange(len(parts))
    return b"".join(parts[: place + 1] + parts[place:])


def _inserted(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    what = rng.choice((b"\xff\xfe", b"\x00", b"[" * 100_000, b"{", b'"', b"\xc3", b"\n", b"#"))
    return data[:place] + what + data[place:]


def _encoded(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", errors="replace")
    return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig")))


def _packed(data: bytes, rng: random.Random) -> bytes:
    packed = gzip.compress(data)
    return rng.choice((packed, packed[: len(packed) // 2], _flipped(packed, rng)))


_DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _truncated, _flipped, _other_number, _other_number, _other_number, _other_name, _missing,
    _twice, _inserted, _encoded, _packed,
)  # fmt: skip


def attack(victim: Victim, seed: int, folder: Path, seldom: int) -> Iterator[str]:
    """Run one of the victim's commands on a damaged copy; yield what it did wrong."""
    rng = random.Random(f"{victim.name} {seed}")
    data = damages(victim.path.read_bytes(), rng)
    home = folder / "attacked"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    path = home / victim.path.name
    path.write_bytes(data)
    searched = victim.searching and (not victim.commands or rng.randrange(seldom) == 0)
    words = [
        str(word).replace("{folder}", str(home)).replace("{}", str(path))
        for word in rng.choice(victim.searching if searched else victim.commands)
    ]
    began = processor_s()
    result = CliRunner().invoke(main, words)
    took, error = processor_s() - began, result.exception
    if took > HANG_S:
        yield f"{words}: {took:.1f} processor seconds"
    if error is not None and not isinstance(error, SystemExit):
        yield f"{words}: {type(error).__name__}: {error}"
    elif result.exit_code not in REFUSALS | _without(words[0]):
        yield f"{words}: exit code {result.exit_code}"
    elif result.exit_code == Exit.BAD_INPUT and not _named(words, path, result.stderr):
        yield f"{words}: no file named in {result.stderr[:200]!r}"


def _without(verb: str) -> set[Exit]:
    """What a verb ends with besides, where the library that it needs is not there."""
    there = verb not in LIBRARIES or find_spec(LIBRARIES[verb]) is not None
    return set() if there else {Exit.SOLVER_FAILURE}


def _named(words: list[str], path: Path, said: str) -> bool:
    """Whether a message names the damaged file, its folder, or a file that goes with it."""
    files = [word for word in words if Path(word).is_file()]
    return any(name in said for name in (str(path.parent), *files))


def processor_s() -> float:
    """Processor seconds of this process and of those it started and that have ended."""
    own, children = (resource.getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
