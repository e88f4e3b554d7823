"""Problems under the serial law, read for planners, bounds and formulations."""
