"""Heuristics and searches that return a plan without being one MILP."""
