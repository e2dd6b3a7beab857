"""What machines, networks and installed versions tell about a stall."""
