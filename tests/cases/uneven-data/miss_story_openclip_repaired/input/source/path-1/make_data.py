"""Download stand-in: a small image-caption set in the CSV form, with the rows a crawl leaves broken."""

import csv
import random
from pathlib import Path

from PIL import Image

THINGS = ("cat", "dog", "tram", "bridge", "kettle", "harbour", "violin", "orchard")
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 200), "grey": (128, 128, 128)}


def write_split(name: str, count: int, lost: float, seed: int) -> None:
    rng = random.Random(seed)
    images = Path("images") / name
    images.mkdir(parents=True, exist_ok=True)
    with open(f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["filepath", "title"])
        for number in range(count):
            colour, thing = rng.choice(list(COLOURS)), rng.choice(THINGS)
            path = images / f"{number:05d}.jpg"
            Image.new("RGB", (32, 32), COLOURS[colour]).save(path)
            fate = rng.random()
            if fate < lost / 2:
                path.unlink()
            elif fate < lost:
                path.write_bytes(path.read_bytes()[:200])
            writer.writerow([path, f"a photo of a {colour} {thing}"])


if __name__ == "__main__":
    write_split("train", 256, lost=0.1, seed=1)
    write_split("val", 132, lost=0.2, seed=9)
