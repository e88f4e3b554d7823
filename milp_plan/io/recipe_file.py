"""Recipes of paper tables as TOML: cases, and published figures.

Described in ``instances/formats/recipe.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from milp_plan.core import Finding, InputError

from .files import read_document
from .pipeline_file import Amount, decode_toml
from .wire import Positive, Strict


class Peer(Strict):
    """A published figure of a case, in the recipe's unit of time, with its source."""

    name: str
    value: Amount
    source: str


class RecipeCase(Strict):
    """One line of the table. ``memory`` counts activations of a device; absent: no limit."""

    stages: Positive
    micro_batches: Positive
    placement: Literal["line", "interleaved", "v", "wave", "dualpipe"]
    times: tuple[Amount, Amount, Amount]
    transfer: Amount = 0
    memory: Amount | None = None
    freed_at_backward: Amount = 0
    chunks: Positive | None = None
    objective: Literal["makespan", "span"] = "makespan"
    time_limit: Annotated[float, msgspec.Meta(gt=0)] | None = None
    section: str = ""
    peers: tuple[Peer, ...] = ()


class Recipe(Strict):
    """A table: its texts, the experts with columns of their own, and its cases.

    ``figure`` is the place (from 1) of the case whose schedules are drawn, expert above ours.
    """

    title: str
    about: str
    cases: Annotated[tuple[RecipeCase, ...], msgspec.Meta(min_length=1)]
    experts: tuple[str, ...] = ()
    figure: Positive | None = None
    figure_expert: str = "dualpipe"
    time_limit: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    threads: Positive = 1


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    document = read_document(path, "a recipe (TOML)")
    recipe = decode_toml(document, Recipe)
    if recipe.figure is not None and recipe.figure > len(recipe.cases):
        found, most = str(recipe.figure), f"at most {len(recipe.cases)}, the number of cases"
        raise InputError([Finding("figure", found, most, "name a case", document.file)])
    return recipe
