"""Large-neighbourhood search by small models, built from arrays: many rounds a second."""
