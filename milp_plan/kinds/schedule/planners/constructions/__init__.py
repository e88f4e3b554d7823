"""Placements and priorities by construction, for graphs with passes and micro-batches."""
