"""Search over places, options and priorities, each state scheduled by the compiled decoder."""
