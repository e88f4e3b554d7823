"""Generators of real architectures as planning problems."""
