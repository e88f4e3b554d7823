"""Exact rematerialisation: models that watch memory at some steps, and more where it matters."""

from .model import Watch, Watched
from .search import Answer, Known, refine

__all__ = ["Answer", "Known", "Watch", "Watched", "refine"]
