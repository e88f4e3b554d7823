"""Cost models: roofline compute times, alpha-beta collectives, routes of values."""
