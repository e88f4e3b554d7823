"""Many runs: suites and recipes as tasks, processes that do them, the store, rows of tables."""
