"""How processes and the job ended, who ended first, and what was said of it."""
