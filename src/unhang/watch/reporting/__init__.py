"""What the user and other programs learn of a run: lines, snapshots, metrics, history."""
