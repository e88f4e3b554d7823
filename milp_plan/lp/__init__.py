"""Models as matrices."""

from .compiled import CompiledModel, Values

__all__ = ["CompiledModel", "Values"]
