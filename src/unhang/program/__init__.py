"""The user's program and its launch, read and never run: which lines a rank may reach, with which settings."""
