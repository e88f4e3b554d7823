"""Training plans as configuration of frameworks, and configuration of frameworks read back."""

from .formats import FORMATS, FrameworkFormat, export, is_export, read_configuration, refusals
from .job import Job, Launch

__all__ = [
    "FORMATS",
    "FrameworkFormat",
    "Job",
    "Launch",
    "export",
    "is_export",
    "read_configuration",
    "refusals",
]
