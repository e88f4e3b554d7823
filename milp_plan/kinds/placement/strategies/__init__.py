"""IdealLevels of problems under the serial law."""
