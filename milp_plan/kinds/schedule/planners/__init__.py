"""Everything that returns a plan without being one MILP."""
