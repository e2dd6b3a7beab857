"""What is said where nothing tells the cause."""
