"""A child that takes evidence at one moment and judges it."""
