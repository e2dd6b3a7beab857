"""Run the detectors, nest consequences under causes, rank, keep what could not be checked."""
