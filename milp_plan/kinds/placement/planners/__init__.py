"""Planners for problems under the serial law."""
