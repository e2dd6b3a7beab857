"""One cause a file; each docstring is the page of its rule."""
