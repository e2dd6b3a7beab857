"""Who and what slows a job that moves."""
