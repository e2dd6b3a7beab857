"""Which values of a function differ by rank, followed statement by statement and over calls."""
