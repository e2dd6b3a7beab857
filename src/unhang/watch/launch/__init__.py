"""Start the command, pass its output and signals on, and decide where a run's files go."""
