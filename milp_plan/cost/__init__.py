"""What things cost: roofline compute times, alpha-beta collectives, routes of values."""
