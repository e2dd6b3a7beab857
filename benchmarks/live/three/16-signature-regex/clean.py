"""Cleaning of mailing list posts."""
import re

QUOTE = re.compile(r"^>.*$", re.M)
# a line that consists of words only is taken for a signature ("Anna Maria Berg")
SIGNATURE = re.compile(r"^(?:[A-Za-z]+[ .-]?)+$", re.M)
SPACE = re.compile(r"\s+")


def clean(post):
    post = QUOTE.sub("", post)
    post = SIGNATURE.sub("", post)
    return SPACE.sub(" ", post).strip()


def features(post, buckets=64):
    counts = [0.0] * buckets
    for word in clean(post).lower().split():
        counts[sum(word.encode()) % buckets] += 1.0
    return counts
