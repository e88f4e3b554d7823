"""Plan how a deep-learning computation graph runs on a cluster: exact, checked, bounded."""

__version__ = "0.1.0"
