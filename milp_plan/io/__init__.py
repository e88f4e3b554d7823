"""Readers and writers of instance and plan files."""

from .dnn_partitioning import ACCELERATOR, CPU
from .files import Document, read_document, write_atomic, write_document
from .fit import oversized
from .perfetto import trace, write_trace
from .plan_file import plan_from_json, plan_to_json, read_plan, write_plan
from .registry import Format, formats, read, read_many, write
from .schemas import schemas, write_schemas

__all__ = [
    "ACCELERATOR",
    "CPU",
    "Document",
    "Format",
    "formats",
    "oversized",
    "plan_from_json",
    "plan_to_json",
    "read",
    "read_document",
    "read_many",
    "read_plan",
    "schemas",
    "trace",
    "write",
    "write_atomic",
    "write_document",
    "write_plan",
    "write_schemas",
    "write_trace",
]
