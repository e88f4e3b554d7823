"""Ways of problems under the serial law."""
