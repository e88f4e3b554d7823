"""Reads CSV files of others: cells, with the line where their row begins."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import chain

from milp_plan.core import Finding, InputError


def csv_rows(
    text: str, what: str, file: str, *, spaced: bool = False
) -> list[tuple[int, list[str]]]:
    """Return the rows of a CSV text that are not empty, each with its first line.

    Parameters
    ----------
    text
        The whole of it.
    what
        Description of the file, for findings.
    file
        Name of the file, for findings.
    spaced
        Whether blanks behind a comma are none of a cell.

    Raises
    ------
    InputError
        A quotation mark is not closed, or something stands behind one that is.
    """
    rows: list[tuple[int, list[str]]] = []
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, skipinitialspace=spaced, strict=True)
    begin = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((begin, cells))
            begin = reader.line_num + 1
    except csv.Error as error:
        unclosed = "unexpected end of data" in str(error)
        found = 'a quotation mark " that is not closed' if unclosed else str(error)
        remedy = "close or remove it" if unclosed else "correct the line"
        raise InputError([Finding(f"line {begin}", found, what, remedy, file)]) from None
    return rows


def csv_records(text: str, what: str, file: str) -> Iterator[dict[str, str]]:
    """Yield the rows after the first one as mappings from its names; missing cells are empty.

    Raises
    ------
    InputError
        As :func:`csv_rows`; or a row has more cells than there are names.
    """
    rows = csv_rows(text, what, file)
    names = rows[0][1] if rows else []
    findings = [
        Finding(f"line {line}", f"{len(cells)} cells", f"at most {len(names)}", "remove some", file)
        for line, cells in rows[1:]
        if len(cells) > len(names)
    ]
    if findings:
        raise InputError(findings)
    for _, cells in rows[1:]:
        yield dict(zip(names, _filled(cells, len(names)), strict=True))


def _filled(cells: Iterable[str], count: int) -> list[str]:
    return list(chain(cells, [""] * count))[:count]
