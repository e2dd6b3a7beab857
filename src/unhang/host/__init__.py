"""This machine: its files, commands and environment, each looked at within a limit."""
