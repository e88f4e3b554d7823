"""The published JSON Schemas, generated from the wire types."""

from __future__ import annotations

from pathlib import Path

from . import native_wire, plan_wire
from .files import write_atomic
from .text import lay_out
from .wire import schema_of


def schemas() -> dict[str, bytes]:
    """Return file name -> text of every published schema."""
    return {
        "native.schema.json": lay_out(schema_of(native_wire.Instance)),
        "plan.schema.json": lay_out(schema_of(plan_wire.Plan)),
    }


def write_schemas(folder: str | Path) -> None:
    """Write the published schemas into a folder (``instances/formats``).

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    for name, text in schemas().items():
        write_atomic(Path(folder) / name, text)
