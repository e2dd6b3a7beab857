"""A shell script read statement by statement, as the shell would go through it. Nothing is run."""
