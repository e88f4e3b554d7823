"""Strategies of problems under the serial law."""
