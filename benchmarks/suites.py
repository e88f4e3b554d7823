"""Suites as the scripts of this folder use them; the format is ``instances/formats/suite.md``.

Only the files of a suite count here: variations, planners and limits are for
``milp-plan bench run``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from milp_plan.io.known_file import KnownValue as Known
from milp_plan.io.known_file import read_known
from milp_plan.io.suite_file import SuiteEntry as Entry
from milp_plan.io.suite_file import read_suite

REPOSITORY = Path(__file__).resolve().parent.parent
SUITES = REPOSITORY / "instances" / "suites"
KNOWN_VALUES = REPOSITORY / "instances" / "known_values.toml"
SUITE_NAMES = ("shipped", "traps", "dnn-partitioning")

__all__ = ["Entry", "Known", "Suite", "known_values", "load_suite"]


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
    InputError
        There is no such suite, or it is not what its format says.
    """
    path = Path(reference) if reference.endswith(".toml") else SUITES / f"{reference}.toml"
    suite = read_suite(path)
    return Suite(suite.name, suite.content.title, suite.content.about, suite.entries)


def known_values(path: Path = KNOWN_VALUES) -> dict[tuple[str, str], Known]:
    """Return exact optima: (instance, objective) -> what is known about it."""
    exact = [entry for entry in read_known(path).entries if entry.optimum is not None]
    return {(entry.instance, entry.objective): entry for entry in exact}
