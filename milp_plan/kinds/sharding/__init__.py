"""Sharding: a strategy for each operator under a memory limit."""
