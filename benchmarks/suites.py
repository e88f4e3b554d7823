"""Suites: lists of instance files in ``instances/suites/*.toml``, and values that are known.

A suite names a ``folder`` relative to the repository, and maybe an environment ``variable`` that
names another one. A file that is not there is listed as absent, with the reason.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SUITES = REPOSITORY / "instances" / "suites"
KNOWN_VALUES = REPOSITORY / "instances" / "known_values.toml"
SUITE_NAMES = ("shipped", "traps", "dnn-partitioning")


@dataclass(frozen=True)
class Entry:
    """One file of a suite.

    Parameters
    ----------
    label
        The file as tables name it, without the folder of this machine.
    path
        Where it is.
    absent
        Why it cannot be solved; empty for a file that is there.
    """

    label: str
    path: Path
    absent: str = ""

    @property
    def stem(self) -> str:
        """File name without its endings."""
        return self.path.name.removesuffix(".gz").removesuffix(".json")


@dataclass(frozen=True)
class Suite:
    """Instances that are reported together."""

    name: str
    title: str
    about: str
    entries: tuple[Entry, ...]


def load_suite(reference: str) -> Suite:
    """Read a suite by name, or from a path to a ``.toml`` file.

    Raises
    ------
    FileNotFoundError
        There is no such suite.
    ValueError
        It has members that are unknown, or lacks one.
    """
    path = Path(reference) if reference.endswith(".toml") else SUITES / f"{reference}.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    needed = {"title", "about", "folder", "files"}
    unknown = set(content) - needed - {"variable", "remedy"}
    if unknown or needed - set(content):
        raise ValueError(
            f"{path.name}: unknown members {sorted(unknown)}, missing members "
            f"{sorted(needed - set(content))}"
        )
    entries = tuple(_entry(content, file) for file in content["files"])
    return Suite(path.stem, content["title"], content["about"], entries)


def _entry(content: dict[str, Any], file: str) -> Entry:
    variable = content.get("variable")
    chosen = os.environ.get(variable) if variable else None
    folder = Path(chosen) if chosen else REPOSITORY / content["folder"]
    path = folder / file
    label = path.name if Path(file).is_absolute() else file
    if path.is_file():
        return Entry(label, path)
    where = f"the folder that {variable} names" if chosen else content["folder"]
    ways = [content["remedy"]] if "remedy" in content else []
    if variable and not chosen:
        ways.append(f"set {variable} to their folder")
    return Entry(label, path, "; ".join([f"not in {where}", *ways]))


@dataclass(frozen=True)
class Known:
    """The optimum of an instance, known without this project's solver."""

    instance: str
    objective: str
    optimum: int
    source: str


def known_values(path: Path = KNOWN_VALUES) -> dict[tuple[str, str], Known]:
    """(instance, objective) -> what is known about it."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    found = [Known(**entry) for entry in content["known"]]
    return {(entry.instance, entry.objective): entry for entry in found}
