"""What nodes and ranks must have alike, and how one rank sends what it saw to another."""
