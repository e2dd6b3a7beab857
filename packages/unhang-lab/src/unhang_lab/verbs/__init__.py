"""``unhang demo`` and ``unhang lab``."""
