"""Stage one: steps that make a problem smaller, each with its way back."""
