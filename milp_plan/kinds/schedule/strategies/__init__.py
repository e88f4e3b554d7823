"""Ways of planning: one module each, for one form of problem."""
