"""Public incidents whose cause was found, and how often each cause lies behind a stall."""
