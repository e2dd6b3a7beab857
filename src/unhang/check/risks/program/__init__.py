"""Risks in the source of the program that will train, in its command and its configuration."""
