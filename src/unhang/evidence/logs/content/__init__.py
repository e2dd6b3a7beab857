"""What stands between the lines of a log: tracebacks, exits, endings, stacks, commands."""
