"""A whole input: a seed's files, some of them changed, renamed, lost, or packed and torn."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from random import Random

from tests.fuzz.mutators import foreign, mutated
from tests.fuzz.seeds import Seed

NAMES = (
    "\x1b[2J.log",
    "<b>rank_0</b>.log",
    "rank_" + "9" * 40,
    "a\nb.log",
    "@all_rank_1.log",
    "rank_1048577.log",
    ".log",
)


@dataclass(frozen=True)
class Input:
    """What is given to unhang. ``foreign``: it may tell of another job, so that any cause may be true of it."""

    seed: Seed
    files: dict[str, bytes]
    foreign: bool = False
    misspelt: bool = False
    """Letters of names were changed: an exception may be called something that it is not."""


def changed(rng: Random, seed: Seed) -> Input:
    """One input made of ``seed``."""
    files = dict(seed.files)
    strange = misspelt = False
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not files:
            break
        name = rng.choice(sorted(files))
        how = rng.random()
        if how < 0.68:
            made = mutated(rng, files[name], rng.choice((1, 1, 2, 4)))
            files[name], misspelt = made.data, misspelt or made.misspelt
            strange = strange or made.forged or name.endswith(".py")
        elif how < 0.76 and files[name][:1] not in (b"\x80", b"{", b"["):
            files[name] = foreign(rng, files[name])
            strange = True
        elif how < 0.82 and len(files) > 1:
            del files[name]
        elif how < 0.88:
            files[_renamed(rng, name)] = files.pop(name)
        elif how < 0.93:
            files[_renamed(rng, name)] = mutated(rng, files[name], 1).data
            strange = True
        elif how < 0.97:
            files = {f"all.{kind}": mutated_archive(rng, packed(files, kind)) for kind in [rng.choice(KINDS)]}
        else:
            files[rng.choice(NAMES)] = rng.choice((b"", rng.randbytes(300), b"[" * 200_000, b"x\n", files[name]))
    return Input(seed, files, strange, misspelt)


def _renamed(rng: Random, name: str) -> str:
    path = PurePosixPath(name)
    other = str(rng.choice((0, 1, 7, 99_999, 1 << 20)))
    stem = re.sub(r"\d+", other, path.name, count=1)
    return (path.parent / rng.choice((stem, stem, f"{path.name}.1", rng.choice(NAMES)))).as_posix()


KINDS = ("zip", "tar", "tar.gz", "log.gz")


def packed(files: dict[str, bytes], kind: str) -> bytes:
    """``files`` as somebody would send them."""
    target = io.BytesIO()
    if kind == "log.gz":
        return gzip.compress(b"".join(files.values())[: 1 << 20], 1, mtime=0)
    if kind == "zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 1)
        return target.getvalue()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(target.getvalue(), 1, mtime=0) if kind == "tar.gz" else target.getvalue()


def mutated_archive(rng: Random, data: bytes) -> bytes:
    """Whole, torn, or with bytes changed, mostly where its headers are."""
    how = rng.random()
    if how < 0.3:
        return data
    if how < 0.6:
        return data[: rng.randrange(len(data) + 1)]
    torn = bytearray(data)
    for _ in range(rng.choice((1, 2, 10))):
        near = rng.choice((0, max(0, len(torn) - 300)))
        if torn:
            torn[min(len(torn) - 1, near + rng.randrange(300))] = rng.randrange(256)
    return bytes(torn)
