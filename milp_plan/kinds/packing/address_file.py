"""Addresses of a plan's copies, as CSV or JSON. Described in ``instances/formats/addresses.md``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from milp_plan.io.files import Document

MARKER = "milp_plan-addresses"


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a copy.

    Parameters
    ----------
    device
        Device of the memory.
    id
        Name of the copy, unique on its device.
    kind, name
        ``persistent``, ``workspace``, ``native`` or ``copy``; the value or operator.
    lower, upper
        Half-open lifetime, ticks.
    size, alignment, offset
        Bytes.
    """

    device: str
    id: str
    kind: str
    name: str
    lower: int
    upper: int
    size: int
    alignment: int
    offset: int


_COLUMNS = tuple(field.name for field in fields(Address))


def is_addresses(document: Document) -> bool:
    """Return whether a document holds addresses, in either form."""
    first = document.data.lstrip().split(b"\n", 1)[0].decode(errors="replace")
    return document.marker == MARKER or first == ",".join(_COLUMNS)


def addresses_csv(addresses: Iterable[Address]) -> bytes:
    """Return a line per copy; the columns are those of packings, and the kind of copy."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(address) for address in addresses)
    return stream.getvalue().encode()


def addresses_json(head: dict[str, Any], addresses: Iterable[Address]) -> bytes:
    """Return a document with some members, and a list of copies."""
    rows = [asdict(address) for address in addresses]
    return json.dumps({"format": MARKER, **head, "addresses": rows}, indent=1).encode() + b"\n"
