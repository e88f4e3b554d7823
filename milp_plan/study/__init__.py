"""Studies of many runs: tasks, their processes, the store, and rows of tables."""
