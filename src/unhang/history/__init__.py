"""What earlier runs came to, on this machine and for this user."""
