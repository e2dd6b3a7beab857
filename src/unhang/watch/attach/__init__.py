"""Stuck now, started without us: find the ranks, sample them, judge."""
