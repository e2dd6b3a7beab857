"""The configuration a launch would run with, and which branches of the program it decides."""
