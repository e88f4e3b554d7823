"""Every option of every verb, as click declares them, does something or is refused."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from milp_plan.cli import execute
from milp_plan.cli.exits import Exit
from milp_plan.cli.main import main
from milp_plan.io import public_data
from milp_plan.run import Settings, identity, kinds, loops
from milp_plan.study import driver
from tests.study.cases import InThisProcess

from .option_examples import (
    BASES,
    CHANGES,
    EVERYWHERE,
    EXAMPLES,
    ON_A_PROBLEM,
    Example,
    changed,
)  # fmt: skip
from .option_files import files

pytestmark = pytest.mark.untraced


def _verbs(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command that takes options of its own, by its words."""
    if not isinstance(command, click.Group) or not path:
        yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _verbs(below, f"{path} {name}".strip())


VERBS = {path: verb for path, verb in _verbs(main) if not path or not isinstance(verb, click.Group)}


def _name(option: click.Parameter) -> str:
    return max(option.opts, key=len)


OPTIONS = [
    (verb, _name(one))
    for verb, command in VERBS.items()
    for one in command.params
    if isinstance(one, click.Option)
]


def example_of(verb: str, option: str) -> Example | None:
    """Return the example of an option of a verb, or ``None``."""
    if found := EXAMPLES[verb].get(option):
        return found
    if option == "--verbose":  # a verb of one step says nothing of it
        return Example("-v", given=("milp_plan.cli.logs._attached", "form", "%(message)s"))
    if option in EVERYWHERE:
        base = BASES[verb]
        loud = base.replace(" --quiet", "") if option == "--quiet" else None
        return Example(EVERYWHERE[option], loud)
    return changed(verb, option) if option in CHANGES and verb in ON_A_PROBLEM else None


def test_every_option_has_an_example() -> None:
    """And every example an option: a new one without an entry fails here."""
    assert [pair for pair in OPTIONS if example_of(*pair) is None] == []
    assert set(EXAMPLES) == set(BASES) == set(VERBS)
    there = set(OPTIONS)
    stale = [(verb, name) for verb in EXAMPLES for name in EXAMPLES[verb]]
    assert [pair for pair in stale if pair not in there] == []
    assert set(CHANGES) <= {name for verb, name in OPTIONS if verb == "info"}


class Seen(NamedTuple):
    """What can be seen of a call from outside; times and what was typed are left out."""

    code: int
    out: Any
    err: str
    files: dict[str, Any]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "Child", InThisProcess)
        patch.setattr(public_data, "download", _brought)
        patch.setattr(identity, "snapshot", lambda path: path)
        patch.setattr(loops, "compile_loops", lambda tell, _: tell("all"))
        patch.setattr(execute, "_recomputation", lambda problem, plan, builder, dtype: True)
        home = tmp_path_factory.mktemp("files")
        yield {name: str(path) for name, path in files(home).items()}


def _brought(
    wanted: Any, home: Path, chosen: Any, *, address: str | None, on_file: Any
) -> list[str]:
    """Write what would be downloaded."""
    home.mkdir(parents=True, exist_ok=True)
    names = [file.name for file in chosen]
    (home / "asked.json").write_text(json.dumps([address, names]))
    return names


def observe(words: str, there: dict[str, str], folder: Path) -> Seen:
    """Run a command in a new folder, and look at all it says and leaves."""
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(there["study"], folder / "study")
    known = there | {"study": "study", "part": "head=d0"}
    asked = [re.sub(r"\{(.*)\}", lambda m: known[m[1]], word) for word in words.split()]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(main, asked)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    left = {_bare(str(path.relative_to(folder))): _content(path) for path in written}
    return Seen(result.exit_code, _members(result.stdout), _bare(result.stderr), left)


def _content(path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix in (".pyc", ".parquet", ".png"):
        return None
    return _members(data.decode())


ASKED = ("settings", "key", "asked", "sha256", "gap_asked", "model_hash", "record_file")
TIMES = ("seconds", "phases", "shares", "trace", "elapsed_s", "wall_s", "worker", "at", "date")
"""Members that repeat what was asked, or that no two runs share."""


def _members(text: str) -> Any:
    """A text, or its members if it is JSON, without those that tell nothing."""
    try:
        return _pruned(json.loads(text))
    except ValueError:
        return _bare(text)


def _pruned(item: Any) -> Any:
    if isinstance(item, dict):
        return {k: _pruned(v) for k, v in item.items() if k not in ASKED + TIMES}
    if isinstance(item, list):
        return [_pruned(entry) for entry in item]
    return _bare(item) if isinstance(item, str) else item


NOISE = re.compile(
    r"\b[\d.]+ ?(s|ms)\b|(?<=-)[0-9a-f]{12,}\b|\d{4}-\d\d-\d\dT[\d:.+]+|\b[0-9a-f]{16,}\b"
    r"|[\d:,.]+(?= (INFO|DEBUG))|<dc:date>.*?</dc:date>|[pm][0-9a-f]{10}\b"
)


def _bare(text: str) -> str:
    return NOISE.sub("#", text)


def _check(example: Example, verb: str, there: dict[str, str], folder: Path) -> None:
    base = BASES[verb] if example.base is None else example.base
    words = f"{base} {example.words}".strip()
    if example.problem:
        assert _problem_of(words, there, folder) != _problem_of(base, there, folder), words
        return
    if example.given is not None or example.setting is not None:
        assert _reached(example, words, there, folder), words
        assert not _reached(example, base, there, folder), base
        return
    after = observe(words, there, folder)
    if example.refused:
        assert after.code in (Exit.USAGE, Exit.BAD_INPUT), after
        assert example.refused in after.err, words
        return
    assert after != observe(base, there, folder), words
    assert after.code not in (Exit.USAGE, Exit.BAD_INPUT), after


def _problem_of(words: str, there: dict[str, str], folder: Path) -> str:
    """Return the fingerprint of the problem that a verb works on."""
    found: list[str] = []
    read = kinds.read

    def heard(*args: Any, **kwargs: Any) -> Any:
        kind, problem = read(*args, **kwargs)
        found.append(problem.fingerprint)
        return kind, problem

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "read", heard)
        seen = observe(words, there, folder)
    assert found, seen
    return found[-1]


def _reached(example: Example, words: str, there: dict[str, str], folder: Path) -> bool:
    """Whether a function, or the settings of a run, is given a value."""
    found: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        if example.setting is not None:
            name, value = example.setting
            known = Settings.__post_init__

            def made(settings: Settings) -> None:
                known(settings)
                found.append(getattr(settings, name))

            patch.setattr(Settings, "__post_init__", made)
        else:
            assert example.given is not None
            where, name, value = example.given
            work = resolve_name(where)

            def called(*args: Any, **kwargs: Any) -> Any:
                bound = inspect.signature(work).bind(*args, **kwargs)
                bound.apply_defaults()
                found.append(bound.arguments[name])
                return work(*args, **kwargs)

            patch.setattr(where, called)
        observe(words, there, folder)
    return value in found


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb])
def test_the_same_words_do_the_same(verb: str, there: dict[str, str], tmp_path: Path) -> None:
    """So that what differs is what the option does."""
    first = observe(BASES[verb], there, tmp_path / "x")
    assert first.code not in (Exit.USAGE, Exit.BAD_INPUT), first.err
    assert observe(BASES[verb], there, tmp_path / "x") == first


def _seldom(verb: str, option: str) -> bool:
    """Whether it is one of many alike: changes are read in one place for all verbs."""
    return option in CHANGES and option not in EXAMPLES[verb] and verb != "info"


ASKED_FOR = [
    pytest.param(*pair, id=" ".join(pair).strip(), marks=[pytest.mark.slow] if slow else [])
    for number, pair in enumerate(OPTIONS)
    for slow in [number % 8 != 0 and (_seldom(*pair) or pair[0] == "migrate")]
]


@pytest.mark.parametrize(("verb", "option"), ASKED_FOR)
def test_an_option_does_something_or_is_refused(
    verb: str, option: str, there: dict[str, str], tmp_path: Path
) -> None:
    example = example_of(verb, option)
    assert example is not None
    _check(example, verb, there, tmp_path / "x")


WORDS = ("nan", "inf", "-inf", "-1", "0", "1e308", "")
"""Numbers at the edge, and none."""

TEXTS = {"--name", "--only", "--folder", "--address", "--model", "--log-file"}
"""Options of free text, for which a number is a word as good as another."""

CALLED = {"--sharding": "mesh", "--split": "options", "--what-if": "what if"} | {
    "--local-updates": "cuts"
}
"""What Python calls the argument behind an option, where a message names that."""

NUMERIC = [
    pair
    for pair in OPTIONS
    for one in VERBS[pair[0]].params
    if isinstance(one, click.Option)
    and _name(one) == pair[1]
    and not (one.is_flag or one.count)
    and not isinstance(one.type, click.Path | click.Choice)
    and pair[1] not in TEXTS
    and not _seldom(*pair)  # read in one place, that of ``info``
]
"""Options that are numbers, amounts, or texts in which numbers stand."""


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        pytest.param(*pair, id=" ".join(pair), marks=[pytest.mark.slow] if number % 4 else [])
        for number, pair in enumerate(NUMERIC)
    ],
)
def test_numbers_at_the_edge_are_refused_by_name_or_mean_something(
    verb: str, option: str, there: dict[str, str], tmp_path: Path
) -> None:
    """Never a traceback; what is no number is taken for none."""
    example = example_of(verb, option)
    assert example is not None
    base = BASES[verb] if example.base is None else example.base
    for word in WORDS:
        seen = observe(f"{base} {option}={word}", there, tmp_path / "x")
        if seen.code in (Exit.USAGE, Exit.BAD_INPUT, Exit.SOLVER_FAILURE):
            names = (option, option.strip("-"), CALLED.get(option, option))
            assert any(name in seen.err for name in names), (word, seen.err)
        elif isinstance(_type_of(verb, option), click.types.FloatParamType | click.IntRange):
            assert word not in ("nan", "-inf", "-1", ""), (word, seen)


def _type_of(verb: str, option: str) -> Any:
    return next(one.type for one in VERBS[verb].params if _name(one) == option)
