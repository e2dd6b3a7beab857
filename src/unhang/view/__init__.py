"""A run, live or finished, in the terminal, on a page, in other people's tools."""
