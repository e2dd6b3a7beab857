"""The worlds of a job: processes that number their ranks together, and how they wait for each other."""
