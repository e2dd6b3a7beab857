"""Format reward: some words of reasoning, then 'answer:' and a number."""
import re

FORMAT = re.compile(r"^(\w+\s?)+answer:\s*(\d+)$")


def score(text):
    match = FORMAT.match(text.strip())
    if not match:
        return 0.0
    return 1.0 if int(match.group(2)) % 2 == 0 else 0.5
