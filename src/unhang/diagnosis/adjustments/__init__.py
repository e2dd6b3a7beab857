"""Passes that change a finding after its detector: certainty, severity, ranks."""
