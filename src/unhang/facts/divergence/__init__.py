"""Ranks that left a loop, skipped a call or lost their partner."""
