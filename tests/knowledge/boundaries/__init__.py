"""What turns at each threshold: small facts of which one measure is varied around the value."""
