"""Measured sends and all-reduces as CSV, and clusters whose links are fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.cost.calibration import MeasuredTransfer, fit_link
from milp_plan.cost.devices import LinkSpec

from .cluster_file import MOST, WireCluster, WireLink, read_cluster, read_wire
from .csv_text import csv_rows
from .files import read_document

_WHAT = "a table of measured times (CSV)"
_MOST_BYTES = 10**15
_MOST_US = 10**9
_MOST_DEVICES = 10**6


@dataclass(frozen=True)
class Row:
    """A measured time and the link it is of; ``""`` is the only link there is."""

    link: str
    transfer: MeasuredTransfer


@dataclass(frozen=True)
class FittedLink:
    """What was fitted, and how far it is off.

    Parameters
    ----------
    link
        Latency and bandwidth.
    rows
        Measured times they were fitted to.
    median_error, largest_error
        Shares of what was measured.
    """

    link: LinkSpec
    rows: int
    median_error: float
    largest_error: float


def read_sends(path: str | Path) -> list[Row]:
    """Read columns ``bytes`` and ``us``, and ``link`` where there are several.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    return _read(path, reduces=False)


def read_all_reduces(path: str | Path) -> list[Row]:
    """Read columns ``devices``, ``bytes`` and ``us``, and ``link`` where there are several.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    return _read(path, reduces=True)


def _read(path: str | Path, *, reduces: bool) -> list[Row]:
    document = read_document(path, _WHAT)
    columns = ["devices", "bytes", "us"] if reduces else ["bytes", "us"]
    lines = [
        cells for _, cells in csv_rows(document.data.decode(), _WHAT, document.file, spaced=True)
    ]
    head = [cell.strip() for cell in lines[0]] if lines else []
    findings = [
        Finding("first line", f"no column {name!r}", ", ".join(columns), "name the columns")
        for name in columns
        if head.count(name) != 1
    ]
    if len(lines) == 1:
        findings.append(Finding("file", "no row", "a row for each measured time", "measure some"))
    rows: list[Row] = []
    if not findings:
        for number, line in enumerate(lines[1:], 2):
            cells = dict(zip(head, (cell.strip() for cell in line), strict=False))
            wrong = list(_wrong(f"row {number}", cells, reduces))
            findings += wrong
            if not wrong:
                devices = int(cells["devices"]) if reduces else 0
                us = float(cells["us"])
                transfer = MeasuredTransfer(int(cells["bytes"]), us * 1000, devices)
                rows.append(Row(cells.get("link", ""), transfer))
    if findings:
        raise InputError(findings).in_file(document.file)
    return rows


def _wrong(where: str, cells: Mapping[str, str], reduces: bool) -> Iterator[Finding]:
    whole = {"bytes": (1, _MOST_BYTES)} | ({"devices": (2, _MOST_DEVICES)} if reduces else {})
    for name, (least, most) in whole.items():
        text = cells.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) < 20) or not (
            least <= int(text) <= most
        ):
            expected = f"an integer from {least} to {most:,}"
            yield Finding(f"{where}, {name}", repr(text[:60]), expected, "correct it")
    text = cells.get("us", "")
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not 0 < time <= _MOST_US:
        expected = f"microseconds, more than 0 and at most {_MOST_US:,}"
        yield Finding(f"{where}, us", repr(text[:60]), expected, "correct it")


def calibrated(
    path: str | Path, tables: Sequence[tuple[str | Path, Sequence[Row]]], date: str
) -> tuple[WireCluster, list[FittedLink]]:
    """Return a cluster whose measured links have the figures that fit best.

    Parameters
    ----------
    path
        The file of the cluster.
    tables
        Files and rows of :func:`read_sends` and :func:`read_all_reduces`.
    date
        Date of the measurement, for the source.

    Raises
    ------
    InputError
        A row names a link that the cluster does not have, or no link fits the times.
    """
    wire = read_wire(read_document(path))
    used = {link.name: link for link in read_cluster(path).links}
    only = next(iter(used)) if len(used) == 1 else None
    transfers: dict[str, list[MeasuredTransfer]] = {}
    origin: dict[str, dict[str, int]] = {}
    findings = []
    for file, rows in tables:
        for number, row in enumerate(rows, 2):
            name = row.link or only
            if name is None or name not in used:
                expected = f"one of the links that join devices: {', '.join(used) or 'none'}"
                where, remedy = f"row {number}, link", "name the link in a column 'link'"
                findings.append(Finding(where, repr(row.link), expected, remedy, str(file)))
                continue
            transfers.setdefault(name, []).append(row.transfer)
            counts = origin.setdefault(name, {})
            counts[str(file)] = counts.get(str(file), 0) + 1
    fits = []
    if not findings:
        for name, measured in transfers.items():
            counted = ", ".join(f"{Path(file).name}, {n} rows" for file, n in origin[name].items())
            files = " and ".join(origin[name])
            try:
                link = fit_link(name, measured, f"measured: {counted}, {date}")
            except ValueError as error:
                expected, remedy = "times of several sizes", "measure small and large messages"
                findings.append(Finding(f"link {name!r}", str(error), expected, remedy, files))
                continue
            if not 10**6 <= link.bandwidth_bytes_per_s <= MOST * 10**9:
                rate, remedy = (
                    f"{link.bandwidth_bytes_per_s} byte/s",
                    "check the units of bytes and us",
                )
                expected = f"0.001 to {MOST:,} GB/s"
                findings.append(Finding(f"link {name!r}", rate, expected, remedy, files))
                continue
            errors = [abs(e.predict_ns(link) - e.ns) / e.ns for e in measured]
            fits.append(FittedLink(link, len(measured), median(errors), max(errors)))
    if findings:
        raise InputError(findings)
    return _with_links(wire, [fit.link for fit in fits]), fits


def _with_links(wire: WireCluster, fitted: Sequence[LinkSpec]) -> WireCluster:
    """Put links in the place of those of the same name, or behind the others."""
    new = {
        link.name: WireLink(
            name=link.name,
            gb_per_s=link.bandwidth_bytes_per_s / 10**9,
            us=link.latency_ns / 1000,
            source=link.source,
        )
        for link in fitted
    }
    links = [new.pop(entry.name, entry) for entry in wire.links]
    return msgspec.structs.replace(wire, links=(*links, *new.values()))
