"""Stage one: apply/undo steps that make a problem smaller."""
