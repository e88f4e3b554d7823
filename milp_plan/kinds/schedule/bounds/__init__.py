"""Lower bounds that hold on the original problem."""
