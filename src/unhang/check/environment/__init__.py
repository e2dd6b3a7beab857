"""Versions, timers, variables and limits a job would run with."""
