"""Nightly index: words of the archive, sorted over and over."""
import os
import random
import time

parent, rng, ends = os.getppid(), random.Random(1), time.time() + 400
words = ["".join(rng.choices("abcdefgh", k=8)) for _ in range(20000)]
while time.time() < ends and os.getppid() == parent:
    rng.shuffle(words)
    places = {w: i for i, w in enumerate(sorted(words))}
