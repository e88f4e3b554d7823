"""Bucket elimination: the cheapest choice of one strategy per operator, where tables stay small."""
