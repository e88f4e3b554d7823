"""Writes model files for other solvers, with readable names."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from milp_plan.io.files import write_parts
from milp_plan.lp import CompiledModel
from milp_plan.lp.text import lp_text, mps_text

LONGEST_NAME = 100
"""Maximum characters of a name, for readable lines; LP readers refuse more than 255."""

_KEYWORDS = re.compile(
    r"(min|max|minimi[sz]e|maximi[sz]e|minimum|maximum|st|s\.t\.|subject|such|bounds?|free|inf"
    r"|infinity|nan|gen|generals?|integers?|bin|binary|binaries|semi|semis|sos|end)",
    re.IGNORECASE,
)
_STARTS_LIKE_A_NUMBER = re.compile(r"[0-9.]|[eE][0-9.]|[eE]$")

ModelFormat = Literal["lp", "mps"]


Progress = Callable[[int, int], None]
"""Called with the number of written rows (LP) or columns (MPS), and their total."""


def write_model(
    model: CompiledModel, path: str | Path, format: ModelFormat, progress: Progress | None = None
) -> None:
    """Write a model in the format LP or MPS; compressed when the file name ends in ``.gz``.

    The text goes from the arrays to the file in blocks. Columns are called ``family(index)``, rows
    ``family(number)``; what the formats do not allow in a name becomes ``_``, and names that would
    be alike or too long end in ``#number``.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    write_parts(path, model_parts(model, format, progress))


def model_parts(
    model: CompiledModel, format: ModelFormat, progress: Progress | None = None
) -> Iterator[bytes]:
    """Yield the file of a model (:func:`write_model`), a block of lines at a time."""
    model = model if model.num_columns else _with_a_column(model)
    columns = unique(column_name(family, index) for family, index in model.columns)
    rows = unique(_numbered(model.row_families))
    blocks = (lp_text if format == "lp" else mps_text)(model, columns, rows)
    count = model.num_rows if format == "lp" else model.num_columns
    reported = 0
    for text, done in blocks:
        if progress is not None and done > reported:
            reported = done
            progress(done, count)
        yield text.encode("ascii")


def _with_a_column(model: CompiledModel) -> CompiledModel:
    """Return a model with at least one column: the formats have no rows without columns."""
    nothing = np.zeros(1)
    return replace(
        model,
        cost=nothing,
        matrix=csr_array(np.ones((model.num_rows, 1))),
        column_lower=nothing,
        column_upper=nothing,
        integrality=np.zeros(1, dtype=np.uint8),
        columns=[("nothing", None)],
    )


def column_name(family: str, index: Hashable) -> str:
    """Return ``family(index)`` in characters that LP and MPS files allow.

    Parameters
    ----------
    family
        Name of the variable.
    index
        ``None`` for a single variable; nested tuples are written one after the other.
    """
    parts = [_clean(str(part)) for part in _flat(index)]
    name = _clean(family)
    if parts:
        name = f"{name}({','.join(parts)})"
    if _STARTS_LIKE_A_NUMBER.match(name) or _KEYWORDS.fullmatch(name):
        return f"_{name}"
    return name


def unique(names: Iterable[str]) -> list[str]:
    """Return short, unique names; equal ones get their position in the list."""
    unique: list[str] = []
    seen: set[str] = set()
    for place, full in enumerate(names):
        name = full
        if len(name) > LONGEST_NAME or name in seen:
            mark = f"#{place}"
            name = full[: LONGEST_NAME - len(mark)] + mark
        seen.add(name)
        unique.append(name)
    return unique


def _numbered(families: Iterable[str]) -> Iterable[str]:
    counts: dict[str, int] = {}
    for family in families:
        counts[family] = counts.get(family, 0) + 1
        yield column_name(family, counts[family])


def _flat(index: Any) -> Iterable[Any]:
    if index is None:
        return
    if isinstance(index, tuple):
        for part in index:
            yield from _flat(part)
    else:
        yield index


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "_", text) or "_"
