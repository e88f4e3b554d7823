"""Solvers, each solve in a process of its own."""
