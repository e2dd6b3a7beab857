"""Ranks of a job that moves: their steps, calls and who is late."""
