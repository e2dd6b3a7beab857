"""What several verbs print: verdicts, progress, steps of a recording."""
