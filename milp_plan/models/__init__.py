"""The protocol every formulation follows, and how formulations are found."""
