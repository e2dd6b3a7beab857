"""Two runs, traces, spans of steps or sets of ranks beside each other: what grew, and where."""
