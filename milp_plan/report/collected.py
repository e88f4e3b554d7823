"""Collected runs as CSV and Parquet: exact numbers as text, other columns typed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

Row = Mapping[str, Any]


def frame(
    rows: Sequence[Row],
    columns: Sequence[str],
    *,
    integers: Iterable[str] = (),
    floats: Iterable[str] = (),
    booleans: Iterable[str] = (),
) -> pandas.DataFrame:
    """Return rows as a frame.

    Parameters
    ----------
    rows
        Plain data; a member that is missing counts as unknown.
    columns
        The first columns; others (of times per phase, floats) follow in order of appearance.
    integers, floats, booleans
        Columns of these kinds, all nullable; the rest is text.
    """
    import pandas

    more = list(dict.fromkeys(key for row in rows for key in row if key not in columns))
    kinds: dict[str, Any] = {
        **dict.fromkeys(integers, "Int64"),
        **dict.fromkeys([*floats, *more], "Float64"),
        **dict.fromkeys(booleans, "boolean"),
    }
    return pandas.DataFrame(
        {
            name: pandas.Series([row.get(name) for row in rows], dtype=kinds.get(name, "string"))
            for name in (*columns, *more)
        }
    )


def as_csv(table: pandas.DataFrame) -> bytes:
    """Return a frame as CSV; unknown entries are empty."""
    return table.to_csv(index=False, lineterminator="\n").encode()


def as_parquet(table: pandas.DataFrame) -> bytes:
    """Return a frame as Parquet."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False, engine="pyarrow")
    return buffer.getvalue()
