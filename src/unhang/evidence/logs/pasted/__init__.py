"""Undo what chats, editors, collectors and terminals do to the lines of a log."""
