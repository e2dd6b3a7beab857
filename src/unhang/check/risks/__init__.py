"""What `unhang check` warns of, a function a question, a file a family; each says what stall it would lead to."""
