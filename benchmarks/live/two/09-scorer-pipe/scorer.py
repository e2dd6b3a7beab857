"""Reads one JSON record a line, writes one JSON score a line (the challenge's official scorer)."""
import json
import sys

for line in sys.stdin:
    r = json.loads(line)
    err = abs(r["pred"] - r["want"])
    print(json.dumps({"id": r["id"], "error": err, "squared": err * err, "within": err < 0.5}), flush=True)
