"""What earlier runs came to, on this machine and for this user: runs, verdicts, and the hosts and cards they named."""
