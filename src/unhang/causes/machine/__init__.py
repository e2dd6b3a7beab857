"""Causes in devices, memory and installed versions."""
