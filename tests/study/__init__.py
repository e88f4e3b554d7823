"""Tests of suites, their runs, stores and tables."""
