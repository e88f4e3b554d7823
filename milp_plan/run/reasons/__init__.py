"""Why a plan is what it is, and what would change: one module for each kind of problem."""
