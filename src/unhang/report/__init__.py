"""Say a verdict: one output a file. Findings in, text out."""
