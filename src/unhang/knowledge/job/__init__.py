"""What is known of a job's commands, variables, versions, paths and default limits."""
