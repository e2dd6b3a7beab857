"""Single patterns of a program's source that can stall ranks: one a file."""
