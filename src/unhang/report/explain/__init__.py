"""``unhang explain``: what a word, a code, a variable or a pasted message means."""
