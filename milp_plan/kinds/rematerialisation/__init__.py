"""Rematerialisation: a training step in a fixed order, with values recomputed or on a host."""
