"""What log lines tell: statements, stages, waits, counts, progress."""
