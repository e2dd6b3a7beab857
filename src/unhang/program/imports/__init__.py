"""Which files a launch would import, as Python would find them. Files are read; nothing is imported or run."""
