"""Serving: which parallel configuration answers requests to a model on a cluster."""
