"""Grow a job until something breaks, and report what."""
