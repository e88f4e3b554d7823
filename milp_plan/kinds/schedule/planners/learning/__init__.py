"""Exact search for the shortest plan that learns a clause from each conflict."""

from .learner import ClauseLearning

__all__ = ["ClauseLearning"]
