"""Tables and figures from plans and records."""
