"""Bucket elimination: the cheapest choice of one strategy per operator, if tables stay small."""
