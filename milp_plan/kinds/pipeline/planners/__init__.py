"""Searches for pipeline schedules: beam search, list schedules, annealing with recomputation."""
