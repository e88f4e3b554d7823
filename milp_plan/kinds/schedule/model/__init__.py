"""What formulations of schedules share."""
