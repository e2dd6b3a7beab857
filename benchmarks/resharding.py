"""``python -m benchmarks.resharding``: ``unhang reshard`` beside a plain loop of webdataset's ShardWriter and tar.

Images are in the page cache; each way runs in a process of its own, in turns; the best of ``--repeats`` is told. The
plain loop reads each file and writes it: it checks, hashes and syncs nothing, and its shards are not equal.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAIN = """
import csv, sys
import webdataset as wds
with wds.ShardWriter(sys.argv[2] + "/shard-%06d.tar", maxcount=int(sys.argv[3]), verbose=0) as sink:
    with open(sys.argv[1], newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\\t")):
            with open(row["filepath"], "rb") as image:
                sink.write({"__key__": f"{number:09d}", "jpg": image.read(), "txt": row["title"]})
"""


def make(folder: Path, count: int, size: int) -> Path:
    """A CSV of ``count`` images of about ``size`` bytes; JPEG at both ends and noise between."""
    rng = random.Random(count)
    noise = rng.randbytes(2 * size)
    (folder / "images").mkdir(parents=True)
    lines = ["filepath\ttitle"]
    for number in range(count):
        path = folder / "images" / f"{number:06d}.jpg"
        start, length = rng.randrange(size // 2), rng.randrange(size // 2, size * 3 // 2)
        path.write_bytes(b"\xff\xd8\xff\xe0" + noise[start : start + length] + b"\xff\xd9")
        lines.append(f"{path}\ta picture with the number {number}")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    (folder / "list").write_text("\n".join(line.split("\t")[0] for line in lines[1:]) + "\n")
    return folder / "data.csv"


def measure(words: list[str], out: Path) -> tuple[float, float]:
    """Seconds, and seconds of processor time."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    os.sync()
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=out.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str]) -> int:
    """Print a row for each way and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks resharding")
    parser.add_argument("--sizes", default="40000x10,10000x100", help="COUNTxKILOBYTES, …")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    print("| images | way | s | processor s | images/s | images/s of processor time |\n|---|---|---:|---:|---:|---:|")
    for words in options.sizes.split(","):
        count, kilobytes = map(int, words.split("x"))
        with tempfile.TemporaryDirectory(prefix="reshard-") as folder:
            _rows(Path(folder), count, kilobytes * 1000, options.repeats)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


def _rows(folder: Path, count: int, size: int, repeats: int) -> None:
    table, out = make(folder, count, size), folder / "out"
    unhang = str(Path(sys.executable).with_name("unhang"))
    ways = {
        "`tar cf`, one file": ["tar", "cf", str(out / "all.tar"), "-T", str(folder / "list")],
        "plain `ShardWriter` loop": [sys.executable, "-c", PLAIN, str(table), str(out), str(count // 32)],
        "`unhang reshard`": [unhang, "reshard", str(table), "--ranks", "8", "--out", str(out)],
    }
    best: dict[str, tuple[float, float]] = {}
    for _ in range(repeats):
        for name, words in ways.items():
            took = measure(words, out)
            best[name] = min(took, best.get(name, took))
    for name, (seconds, busy) in best.items():
        speeds = f"{count / seconds:,.0f} | {count / busy:,.0f}"
        print(f"| {count:,} × {size // 1000} kB | {name} | {seconds:.1f} | {busy:.1f} | {speeds} |")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
