"""Lower bounds of problems under the serial law."""
