"""Lines, sections and durations as a terminal or a chat shows them."""
