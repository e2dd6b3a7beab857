"""What a stack tells: the user's own line, what the process does there, which ranks stand together."""
