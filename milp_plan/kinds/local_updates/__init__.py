"""Local updates: which step boundaries of a training run to cut."""
