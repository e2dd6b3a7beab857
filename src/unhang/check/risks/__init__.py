"""What ``unhang check`` warns of: one question per file, each says what stall it would lead to."""
