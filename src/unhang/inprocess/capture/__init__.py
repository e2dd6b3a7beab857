"""What is taken of a live rank: its stack, its collectives, its flight recorder, its crash."""
