"""The search for the smallest set of settings that gets around a broken transport."""
