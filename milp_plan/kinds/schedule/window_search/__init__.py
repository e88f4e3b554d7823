"""Search near a schedule by small models, built from arrays: many rounds a second."""

from .search import search_near

__all__ = ["search_near"]
