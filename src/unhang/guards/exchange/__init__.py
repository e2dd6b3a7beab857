"""How ranks tell each other something out of band, and what they say to the user."""
