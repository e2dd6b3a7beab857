"""What one line tells by itself: who spoke, when, how far the job was."""
