"""Models as matrices."""
