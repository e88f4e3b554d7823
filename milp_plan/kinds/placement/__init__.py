"""Placement under the serial law: which device runs which operator, for latency or throughput."""
