"""Planners of sharding problems: one strategy per operator."""
