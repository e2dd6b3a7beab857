"""Faults injected into real jobs: proof that each cause is recognised."""
