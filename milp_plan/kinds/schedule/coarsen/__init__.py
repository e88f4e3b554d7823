"""Coarsening: steps that make a problem smaller, each with the expansion of its plans."""
