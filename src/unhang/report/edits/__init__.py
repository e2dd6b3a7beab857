"""Edits of source text that remedies ask for: one kind of edit a module, each as a diff for `git apply`."""
