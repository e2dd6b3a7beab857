"""``unhang compare``."""
