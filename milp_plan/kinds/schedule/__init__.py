"""Schedules: operators on devices, in time."""
