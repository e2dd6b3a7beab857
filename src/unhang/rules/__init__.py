"""Recognise causes in facts: one cause a file."""
