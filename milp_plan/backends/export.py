"""Model files for other solvers, written by HiGHS, with names people can read."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from milp_plan.core import BackendFailureError
from milp_plan.io import write_document
from milp_plan.lp import CompiledModel

from .highs import check_version
from .worker import _pass_model

LONGEST_NAME = 100
"""Characters of a name; LP readers refuse more than 255, and lines get unreadable long before."""

_KEYWORDS = re.compile(
    r"(min|max|minimi[sz]e|maximi[sz]e|minimum|maximum|st|s\.t\.|subject|such|bounds?|free|inf"
    r"|infinity|nan|gen|generals?|integers?|bin|binary|binaries|semi|semis|sos|end)",
    re.IGNORECASE,
)
_STARTS_LIKE_A_NUMBER = re.compile(r"[0-9.]|[eE][0-9.]|[eE]$")

ModelFormat = Literal["lp", "mps"]


def write_model(model: CompiledModel, path: str | Path, format: ModelFormat) -> None:
    """Write a model in the format LP or MPS; compressed when the file name ends in ``.gz``.

    Columns are called ``family(index)``, rows ``family(number)``; what the formats do not allow
    in a name becomes ``_``, and names that would be alike or too long end in ``#number``.

    Raises
    ------
    BackendUnavailableError
        highspy is missing or too old.
    BackendFailureError
        HiGHS does not write the model.
    OSError
        The folder does not exist or cannot be written.
    """
    check_version()
    import highspy

    model = model if model.num_columns else _with_a_column(model)
    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    _pass_model(highs, model)
    named = highs.getLp()
    named.col_names_ = unique(column_name(family, index) for family, index in model.columns)
    named.row_names_ = unique(_numbered(model.row_families))
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"model.{format}"
        passed = highs.passModel(named)
        answer = highs.writeModel(str(written))
        if highspy.HighsStatus.kError in (passed, answer) or not written.is_file():
            raise BackendFailureError(f"HiGHS does not write the model as {format}")
        write_document(path, written.read_bytes())


def _with_a_column(model: CompiledModel) -> CompiledModel:
    """Give a model without columns one that is 0: the formats have no rows without columns."""
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
    """Shorten long names and tell apart those that are alike, by their place in the list."""
    found: list[str] = []
    seen: set[str] = set()
    for place, full in enumerate(names):
        name = full
        if len(name) > LONGEST_NAME or name in seen:
            mark = f"#{place}"
            name = full[: LONGEST_NAME - len(mark)] + mark
        seen.add(name)
        found.append(name)
    return found


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
