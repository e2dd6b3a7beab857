"""``unhang ramp``."""
