"""The folders a job uses, what they lie on and how fast that answers."""
