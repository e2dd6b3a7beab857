"""This machine: its files, commands and environment, each read within a limit."""
