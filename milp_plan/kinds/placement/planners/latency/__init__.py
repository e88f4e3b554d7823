"""Planners for the latency of one sample under the serial law."""
