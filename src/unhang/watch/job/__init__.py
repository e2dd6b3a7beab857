"""The ranks of the job on this machine, and when they wait too long."""
