"""Download stand-in: photographs with five captions each, as COCO has them, in the CSV form."""

import csv
import random
from pathlib import Path

from PIL import Image

THINGS = ("cat", "dog", "tram", "bridge", "kettle", "harbour", "violin", "orchard")
PHRASES = ("a photo of a {}", "one {}", "a {} in the sun", "somebody's {}", "there is a {}")


def write_split(name: str, count: int, size: tuple[int, int], seed: int) -> None:
    rng = random.Random(seed)
    images = Path("images") / name
    images.mkdir(parents=True, exist_ok=True)
    with open(f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["filepath", "title"])
        for number in range(count):
            path = images / f"{number:05d}.jpg"
            small = Image.frombytes("RGB", (40, 30), rng.randbytes(40 * 30 * 3))
            small.resize(size).save(path)
            thing = rng.choice(THINGS)
            writer.writerows([path, phrase.format(thing)] for phrase in PHRASES)


if __name__ == "__main__":
    write_split("train", 104, size=(64, 48), seed=1)
    write_split("val", 1800, size=(64, 48), seed=9)
