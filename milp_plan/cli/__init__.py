"""The milp-plan command."""
