"""Search near a schedule by small models, built from arrays: many rounds a second."""
