"""What a verdict says beside its findings: health, gaps, restart, checkpoints."""
