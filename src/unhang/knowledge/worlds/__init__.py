"""What the programs of a job of several worlds are called, do, and say while they wait for each other."""
