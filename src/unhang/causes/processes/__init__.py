"""Causes in a process: it ended, or it was stopped."""
