"""The public interface: functions for problems of every kind, and the builder."""
