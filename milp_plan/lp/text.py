"""Writes models for other solvers in the formats LP and free MPS, a block of lines at a time.

Blocks are made from the arrays as they are asked for: a model of millions of rows takes hardly
more memory as text than as arrays. LP has no rows with two sides that its readers agree on: such a
row becomes two, ``NAMElo`` and ``NAMEup``. Rows without sides say nothing: LP leaves them out, MPS
has them as rows of type N.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compiled import CompiledModel

BLOCK = 256
"""Maximum number of rows or columns of a block."""

TERMS = 4
"""Maximum terms of a line: with names of 100 characters, it has at most 560, as readers require."""

OBJECTIVE = "objective"


class Block(NamedTuple):
    """Lines, and the number of rows (LP) or columns (MPS) written so far."""

    text: str
    done: int = 0


def lp_text(model: CompiledModel, columns: Sequence[str], rows: Sequence[str]) -> Iterator[Block]:
    """Write a model in the format LP, row by row.

    Parameters
    ----------
    model
        Has at least one column.
    columns, rows
        Names that the format allows, each once.
    """
    used = np.zeros(model.num_columns, dtype=bool)
    used[model.matrix.indices] = True
    used[:1] &= bool(model.cost.any())  # no objective is empty
    named = np.flatnonzero((model.cost != 0) | ~used)  # what stands nowhere else stands here
    yield Block(f"minimize\n {OBJECTIVE}:\n")
    for start, stop in _blocks(len(named)):
        places = named[start:stop]
        yield Block(_terms(places.tolist(), model.cost[places].tolist(), columns) + "\n")
    yield Block(f" {_signed(model.offset)}\nsubject to\n" if model.offset else "subject to\n")
    for start, stop in _blocks(model.num_rows):
        lines = [_lp_row(model, row, columns, rows[row]) for row in range(start, stop)]
        yield Block("".join(lines), stop)
    yield Block("bounds\n")
    binary = (model.integrality == 1) & (model.column_lower == 0) & (model.column_upper == 1)
    for start, stop in _blocks(model.num_columns):
        sides = _sides(model.column_lower, model.column_upper, start, stop)
        named_sides = zip(columns[start:stop], sides, binary[start:stop].tolist(), strict=True)
        lines = [_lp_bound(name, *pair) for name, pair, is_bit in named_sides if not is_bit]
        yield Block("".join(lines), model.num_rows)
    kinds = (("binary", binary), ("general", (model.integrality == 1) & ~binary))
    for section, chosen in kinds:
        yield Block(f"{section}\n", model.num_rows)
        places = np.flatnonzero(chosen)
        for start, stop in _blocks(len(places)):
            text = "".join(f" {columns[place]}\n" for place in places[start:stop].tolist())
            yield Block(text, model.num_rows)
    yield Block("end\n", model.num_rows)


def mps_text(model: CompiledModel, columns: Sequence[str], rows: Sequence[str]) -> Iterator[Block]:
    """Write a model in the format MPS with free columns, column by column.

    Parameters
    ----------
    model
        Has at least one column.
    columns, rows
        Names without spaces, each once.
    """
    yield Block(f"NAME\nROWS\n N {OBJECTIVE}\n")
    for start, stop in _blocks(model.num_rows):
        sides = _sides(model.row_lower, model.row_upper, start, stop)
        named = zip(rows[start:stop], sides, strict=True)
        yield Block("".join(f" {_sense(*pair)} {name}\n" for name, pair in named))
    yield Block("COLUMNS\n")
    yield from _mps_columns(model, columns, rows)
    done = model.num_columns
    yield Block("RHS\n", done)
    if model.offset:
        yield Block(f" RHS {OBJECTIVE} {_number(-model.offset)}\n", done)
    for start, stop in _blocks(model.num_rows):
        sides = _sides(model.row_lower, model.row_upper, start, stop)
        named = zip(rows[start:stop], sides, strict=True)
        yield Block("".join(_mps_side(name, *pair) for name, pair in named), done)
    yield Block("RANGES\n", done)
    lower, upper = model.row_lower, model.row_upper
    ranged = np.flatnonzero(np.isfinite(lower) & np.isfinite(upper) & (lower != upper))
    for row in ranged.tolist():
        yield Block(f" RANGE {rows[row]} {_number(upper[row] - lower[row])}\n", done)
    yield Block("BOUNDS\n", done)
    integer = model.integrality == 1
    for start, stop in _blocks(model.num_columns):
        sides = _sides(model.column_lower, model.column_upper, start, stop)
        kinds = zip(columns[start:stop], sides, integer[start:stop].tolist(), strict=True)
        text = "".join(_mps_bound(name, *pair, is_integer) for name, pair, is_integer in kinds)
        yield Block(text, done)
    yield Block("ENDATA\n", done)


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, BLOCK):
        yield start, min(count, start + BLOCK)


def _sides(
    lower: NDArray[np.float64], upper: NDArray[np.float64], start: int, stop: int
) -> Iterable[tuple[float, float]]:
    return zip(lower[start:stop].tolist(), upper[start:stop].tolist(), strict=True)


def _number(number: float) -> str:
    """Return the shortest text that reads as the same number."""
    number = float(number)
    return repr(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _signed(number: float) -> str:
    text = _number(number)
    return text if text.startswith("-") else f"+{text}"


def _terms(places: Sequence[int], factors: Sequence[float], columns: Sequence[str]) -> str:
    """Return the terms of a sum, in lines."""
    terms = [f" {_signed(f)} {columns[p]}" for p, f in zip(places, factors, strict=True)]
    return "\n".join("".join(terms[at : at + TERMS]) for at in range(0, len(terms), TERMS))


def _lp_row(model: CompiledModel, row: int, columns: Sequence[str], name: str) -> str:
    lower, upper = float(model.row_lower[row]), float(model.row_upper[row])
    part = slice(*model.matrix.indptr[row : row + 2].tolist())
    places, factors = model.matrix.indices[part].tolist(), model.matrix.data[part].tolist()
    left = _terms(places, factors, columns) or f" 0 {columns[0]}"
    if lower == upper:
        return f" {name}:{left} = {_number(lower)}\n"
    two = lower != -inf and upper != inf
    least = "" if lower == -inf else f" {name}{'lo' * two}:{left} >= {_number(lower)}\n"
    most = "" if upper == inf else f" {name}{'up' * two}:{left} <= {_number(upper)}\n"
    return least + most


def _lp_bound(name: str, lower: float, upper: float) -> str:
    if lower == upper:
        return f" {name} = {_number(lower)}\n"
    if lower == -inf:
        return f" {name} free\n" if upper == inf else f" -inf <= {name} <= {_number(upper)}\n"
    if upper == inf:
        return f" {name} >= {_number(lower)}\n" if lower else ""
    return f" {_number(lower)} <= {name} <= {_number(upper)}\n"


def _sense(lower: float, upper: float) -> str:
    if lower == upper:
        return "E"
    if upper != inf:
        return "L"
    return "N" if lower == -inf else "G"


def _mps_columns(
    model: CompiledModel, columns: Sequence[str], rows: Sequence[str]
) -> Iterator[Block]:
    by_column = model.matrix.tocsc()
    starts, whole, markers = by_column.indptr, False, 0
    for start, stop in _blocks(model.num_columns):
        lines: list[str] = []
        for column in range(start, stop):
            if whole != bool(model.integrality[column]):
                whole, markers = not whole, markers + 1
                lines.append(_marker(markers, begins=whole))
            part = slice(*starts[column : column + 2].tolist())
            entries = zip(
                by_column.indices[part].tolist(), by_column.data[part].tolist(), strict=True
            )
            cost, name = float(model.cost[column]), columns[column]
            if cost or part.start == part.stop:
                lines.append(f" {name} {OBJECTIVE} {_number(cost)}\n")
            lines += [f" {name} {rows[row]} {_number(factor)}\n" for row, factor in entries]
        yield Block("".join(lines), stop)
    if whole:
        yield Block(_marker(markers + 1, begins=False), model.num_columns)


def _marker(count: int, *, begins: bool) -> str:
    return f" MARKER{count} 'MARKER' '{'INTORG' if begins else 'INTEND'}'\n"


def _mps_side(name: str, lower: float, upper: float) -> str:
    side = lower if upper == inf else upper
    return f" RHS {name} {_number(side)}\n" if side and side != -inf else ""


def _mps_bound(name: str, lower: float, upper: float, is_integer: bool) -> str:
    """Return the bounds of a column; the upper one first, since readers may take it for both."""
    if lower == upper:
        return f" FX BOUND {name} {_number(lower)}\n"
    if (lower, upper) == (-inf, inf):
        return f" FR BOUND {name}\n"
    if is_integer and (lower, upper) == (0, 1):
        return f" BV BOUND {name}\n"
    text = ""
    if upper != inf:
        text = f" UP BOUND {name} {_number(upper)}\n"
    elif is_integer:  # without one, some readers take it for a bit
        text = f" PL BOUND {name}\n"
    if lower == -inf:
        return f"{text} MI BOUND {name}\n"
    if lower or upper < 0:
        text += f" LO BOUND {name} {_number(lower)}\n"
    return text
