"""Who waits for whom, in which call, since when and under which timeout."""
