"""Solvers; each solve runs in a separate process."""

from .outcome import Limits, SolverReport, Stop, TracePoint

__all__ = ["Limits", "SolverReport", "Stop", "TracePoint"]
