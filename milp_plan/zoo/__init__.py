"""Generators of real architectures as planning problems."""

from .architecture import KINDS, SPLITS, Architecture, Layer

__all__ = ["KINDS", "SPLITS", "Architecture", "Layer"]
