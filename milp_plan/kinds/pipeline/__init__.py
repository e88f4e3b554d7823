"""Pipelines: templates and placements unrolled into problems, and problems read as job shops."""
