"""Target ``readers``: small inputs into one reader each. It returns items or what was unread, and never raises."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz import made_seeds
from tests.fuzz.folders import KINDS, changed, mutated_archive, packed
from tests.fuzz.mutators import foreign, mutated
from tests.fuzz.readers import READERS, TREES, files_in, unread_of
from tests.fuzz.seeds import Seed, case_seeds
from unhang.evidence.format_detection import HEAD_BYTES, FileKind, detect_format

STACKS = Path(__file__).parents[1] / "evidence" / "stacks" / "samples"
WINDOW = 40
"""So many lines of a log or a stack are given at once."""
PACKED = frozenset((FileKind.ZIP, FileKind.TAR, FileKind.COMPRESSED))
_KIND_OF = {
    FileKind.LOG: "log",
    FileKind.STACKS: "stacks",
    FileKind.RECORDING: "recording",
    FileKind.MANIFEST: "manifest",
    FileKind.PACE: "pace",
    FileKind.COMPARED: "compared",
    FileKind.CHECKPOINTS: "checkpoints",
    FileKind.EARLIER: "earlier",
    FileKind.NODES: "nodes",
    FileKind.MACHINE: "machine",
}
SHARES = (
    ("log",) * 6 + ("stacks",) * 3 + ("recording",) * 3 + tuple(sorted(set(READERS) - {"log", "stacks", "recording"}))
)
"""Which reader gets the next input: logs are most of what is given to us."""
HEAVY_BYTES, HEAVY_EVERY = 16 << 10, 10
"""Larger seeds cost more time than all others together: one of so many inputs of a reader is made of them, in turn."""


@cache
def reader_seeds() -> dict[str, tuple[bytes, ...]]:
    """By reader: the files of all cases that it reads, and made ones of the formats that no case has."""
    found: dict[str, list[bytes]] = {name: [] for name in READERS}
    for seed in case_seeds():
        for name, content in seed.files.items():
            kind = _KIND_OF.get(detect_format(content[:HEAD_BYTES], name).kind)
            if kind is not None and len(content) < 40_000:
                found[kind].append(content)
    made = made_seeds.made()
    made["stacks"] += [path.read_bytes() for path in sorted(STACKS.iterdir())]
    for name, contents in made.items():
        found[name] = _by_turns(contents, found[name])
    found["large log"] = found["literals"] = found["log"]
    single = sorted(set(found) - {*TREES, "file", "pipe", "confined", "many dumps", "literals", "large log"})
    everything = [content for name in single for content in found[name][:8]]
    packings = [packed({"a.log": each[:2000]}, kind) for each in everything[:6] for kind in KINDS]
    for name in ("file", "pipe"):
        found[name] += [*packings, *everything]
    found["name"] = [name.encode() for seed in case_seeds() for name in seed.files] + [foreign(Random(0), b"")] * 9
    return {name: tuple(contents) for name, contents in found.items()}


def _by_turns(made: list[bytes], of_cases: list[bytes]) -> list[bytes]:
    """So that a short run starts from all that was made as well, which is much less and holds more."""
    pairs = zip(itertools.cycle(made), of_cases, strict=False)
    return [*made, *itertools.chain.from_iterable(pairs)]


def made(rng: Random, number: int) -> tuple[str, bytes]:
    """(reader, what it is given)."""
    name = SHARES[number % len(SHARES)]
    data = in_turn(reader_seeds()[name], number // len(SHARES))
    if name in TREES:
        return name, packed(changed(rng, Seed(name, files_in(data))).files, "zip")
    if name in ("log", "large log", "literals", "stacks"):
        lines = data.split(b"\n")
        at = rng.randrange(max(1, len(lines) - WINDOW // 2))
        data = b"\n".join(lines[at : at + WINDOW])
    if name in ("file", "pipe") and detect_format(data[:HEAD_BYTES], "").kind in PACKED:
        return name, mutated_archive(rng, data)
    if name in ("log", "large log") and rng.random() < 0.3:
        return name, foreign(rng, data)
    return name, mutated(rng, data, rng.choice((1, 1, 2, 3))).data


def in_turn(seeds: tuple[bytes, ...], turn: int) -> bytes:
    """Light seeds one after the other, and every :data:`HEAVY_EVERY` turns the next heavy one."""
    light, heavy = _by_weight(seeds)
    if heavy and (turn % HEAVY_EVERY == 0 or not light):
        return heavy[turn // HEAVY_EVERY % len(heavy)]
    return light[(turn - turn // HEAVY_EVERY - 1) % len(light)]


@cache
def _by_weight(seeds: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    light = tuple(seed for seed in seeds if len(seed) <= HEAVY_BYTES)
    return light, tuple(seed for seed in seeds if len(seed) > HEAVY_BYTES)


def check(name: str, data: bytes, place: Path) -> Iterator[str]:
    """What is wrong with how the reader ``name`` takes ``data``."""
    try:
        found = READERS[name](data, place)
    except Exception as error:  # noqa: BLE001 - the property: a reader never raises
        from unhang.errors import describe_failure

        yield f"failed: {name}: {describe_failure(error)}"
        return
    yield from (f"failed: {name}: {each.reason}" for each in unread_of(found) if each.failed)


def seed_of(name: str, data: bytes) -> Seed:
    """For the corpus."""
    return Seed(name, {name: data})
