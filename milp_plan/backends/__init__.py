"""Solvers, each solve in a process of its own."""

from .outcome import Limits, SolverReport, Stop, TracePoint

__all__ = ["Limits", "SolverReport", "Stop", "TracePoint"]
