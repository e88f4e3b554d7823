"""Exact search over placements and schedules of small problems."""

from .search import Enumeration

__all__ = ["Enumeration"]
