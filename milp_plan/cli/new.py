"""``new formulation``: writes a working formulation to start from."""

from __future__ import annotations

import keyword
import os
import re
from pathlib import Path

import click

from .inputs import PATH
from .output import say

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@click.group()
def new() -> None:
    """Write files to start from."""


@new.command()
@click.argument("name")
@click.option(
    "--folder",
    type=PATH,
    help="Where the formulation goes; formulations/ if there is one here, else this folder.",
)
@click.option(
    "--tests",
    type=PATH,
    help="Where its test goes; tests/models/ next to the folder if it exists, else "
    "tests/ in the folder.",
)
def formulation(name: str, folder: Path | None, tests: Path | None) -> None:
    """Write a formulation NAME.py that works, its page NAME.md and its test."""
    from .templates import page, source, test

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise click.BadParameter(
            f"{name!r}: expected lower-case letters, digits and underscores, a letter first",
            param_hint="'NAME'",
        )
    if folder is None:
        folder = Path("formulations") if Path("formulations").is_dir() else Path()
    if tests is None:
        shared = folder.absolute().parent / "tests" / "models"
        tests = shared if shared.is_dir() else folder / "tests"
    code = folder / f"{name}.py"
    files = {
        code: source(name),
        folder / f"{name}.md": page(name),
        tests / f"test_{name}.py": test(name, _relative(code, tests)),
    }
    there = [path for path in files if path.exists()]
    if there:
        raise click.UsageError(f"{there[0]} exists; take another name, or remove it")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        say(str(path))


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
