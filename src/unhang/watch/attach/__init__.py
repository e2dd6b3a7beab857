"""Stuck now, started without us: find the ranks on this machine, look at them, ask the job what it can tell, judge."""
