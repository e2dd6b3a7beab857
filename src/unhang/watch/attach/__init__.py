"""Stuck now, started without us: find the ranks, look at them, judge."""
