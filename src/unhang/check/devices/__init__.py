"""Accelerators, driver and topology: what is asked, and what was found."""
