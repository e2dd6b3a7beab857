"""What a value looks like, small enough to be compared between ranks."""
