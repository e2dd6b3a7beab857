"""What the rank that the others wait for is doing."""
