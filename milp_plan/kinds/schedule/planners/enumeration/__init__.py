"""Exact search over placements, schedules and orders of small problems."""
