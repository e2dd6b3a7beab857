"""One list of passes from what detectors signal to a verdict: grade, cap, rank, explain away, decide the status."""
