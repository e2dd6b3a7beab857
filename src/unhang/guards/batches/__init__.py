"""Epochs in which all ranks take the same number of batches."""
