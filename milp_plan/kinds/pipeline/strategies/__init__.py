"""Strategies of pipelines."""
