"""What a value looks like, small enough to be compared between ranks, and deep enough to say where it differs."""
