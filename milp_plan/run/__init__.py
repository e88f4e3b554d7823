"""The two stages put together, and the record of each run."""
