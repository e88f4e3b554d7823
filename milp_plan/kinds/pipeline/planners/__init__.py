"""Searches for pipeline schedules: beams, scheduling words anew, annealing of stashes."""
