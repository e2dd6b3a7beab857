"""What several verbs print: verdicts and progress."""
