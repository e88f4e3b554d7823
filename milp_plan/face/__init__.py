"""The public face: verbs for problems of every kind, and the builder; see :mod:`milp_plan`."""
