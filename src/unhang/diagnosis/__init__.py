"""Run the rules, nest consequences under causes, rank, keep what could not be checked."""
