"""The published JSON Schemas, generated from the wire types."""

from __future__ import annotations

from typing import Any

from . import answer_wire, capture_wire, native_wire, placement_wire, plan_wire, stage_wire
from .wire import lay_out, schema_of


def schemas() -> dict[str, bytes]:
    """Return file name -> text of every published schema."""
    return {
        "answer.schema.json": lay_out(_complete(schema_of(answer_wire.AnyAnswer))),
        "capture.schema.json": lay_out(schema_of(capture_wire.Capture)),
        "native.schema.json": lay_out(schema_of(native_wire.Instance)),
        "plan.schema.json": lay_out(schema_of(plan_wire.Plan)),
        "torch-placements.schema.json": lay_out(schema_of(placement_wire.TorchPlacements)),
        "torch-stages.schema.json": lay_out(schema_of(stage_wire.TorchStages)),
    }


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of objects that have all their members, and no others."""
    known = {
        name: {**entry, "required": list(entry["properties"]), "additionalProperties": False}
        for name, entry in schema["$defs"].items()
    }
    return {**schema, "$defs": known}
