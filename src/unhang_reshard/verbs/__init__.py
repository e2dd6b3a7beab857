"""``unhang reshard``."""
