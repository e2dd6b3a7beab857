"""What is kept of ranks and logs beside a look."""
