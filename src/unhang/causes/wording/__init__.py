"""Reasons and remedies that several detectors say alike."""
