"""The ways that ranks may take through a program: where one meets a collective and the other does not."""
