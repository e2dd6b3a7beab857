"""What the collective probe saw, and what would be normal."""
