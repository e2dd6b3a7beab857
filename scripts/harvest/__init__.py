"""What programs print is finite and stands in their releases: see ``__main__``."""
