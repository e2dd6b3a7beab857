"""What is kept of ranks and logs beside samples of ranks."""
