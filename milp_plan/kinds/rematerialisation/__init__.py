"""Rematerialisation: one order of a training step, with values computed again or held by a host."""
