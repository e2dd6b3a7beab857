"""Target ``readers``: small inputs into one reader each. It returns items or what was unread, and never raises."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.folders import KINDS, mutated_archive, packed
from tests.fuzz.mutators import foreign, mutated
from tests.fuzz.seeds import Seed, case_seeds
from tests.trace_samples import training
from unhang.evidence import compared, earlier, machine_series, nodes, pace, run_settings
from unhang.evidence.bundle import read_manifest
from unhang.evidence.checkpoints import listing
from unhang.evidence.checkpoints.looking import find_checkpoints
from unhang.evidence.evidence_reader import EvidenceReader
from unhang.evidence.flight_recorder.reading import read_recording
from unhang.evidence.found_files import Found, FoundFile
from unhang.evidence.kinds import HEAD_BYTES, Kind, decide
from unhang.evidence.kineto.reading import read_trace
from unhang.evidence.limits import DEFAULT_LIMITS
from unhang.evidence.logs import read_log
from unhang.evidence.pieces import Pieces
from unhang.evidence.rank_names import host_from_name, rank_from_name
from unhang.evidence.rank_series import read_rank_series
from unhang.evidence.stacks import read_stacks
from unhang.evidence.stacks_in_logs import StackListener
from unhang.findings import Source, Unread
from unhang.knowledge.messages import match_message
from unhang.lab.dump_writer import make_dump, make_entry, pickle_like_torch

Reader = Callable[[bytes, Path], Any]
STACKS = Path(__file__).parents[1] / "evidence" / "stacks"
WINDOW = 40
"""So many lines of a log or a stack are given at once."""
_SOURCE = Source("fuzzed")


def _log(data: bytes, place: Path) -> Any:
    listener = StackListener()
    reading = read_log(io.BytesIO(data), source="fuzzed_rank_1.log", rank=1, listener=listener, modified_s=1.7e9)
    return [reading, *listener.stacks("fuzzed", 1)]


@cache
def _steps() -> bytes:
    return b"".join(b"[rank%d]: step %d loss 1.0\n" % (at % 4, at) for at in range(100_000))


def _large_log(data: bytes, place: Path) -> Any:
    """In the middle of a log of many blocks, of which only parts are read line by line; one in eight, for its time."""
    return _log(data if len(data) % 8 else _steps() + data + b"\n" + _steps(), place)


def _stacks(data: bytes, place: Path) -> Any:
    return list(read_stacks(data, source="fuzzed", rank=None))


def _dump(data: bytes, place: Path) -> Any:
    return [read_recording(data, source="rank_1"), read_recording(data, source="rank_1", whole=True)]


def _file(read: Callable[..., Any]) -> Reader:
    def reader(data: bytes, place: Path) -> Any:
        path = place / "rank0_trace.json"
        path.write_bytes(data)
        return read(path, source=_SOURCE) if read is read_rank_series else read(path)

    return reader


def _paper(read: Callable[..., Any]) -> Reader:
    return lambda data, place: read(data, source=_SOURCE)


def _any_file(data: bytes, place: Path) -> Any:
    """A file of any kind: what is it, and its reader."""
    path = place / "file"
    path.write_bytes(data)
    seen = path.stat()
    found = Found(files=[FoundFile(path, str(path), len(data), 1.7e9, place, (seen.st_dev, seen.st_ino))])
    reader = EvidenceReader(DEFAULT_LIMITS, [str(path)])
    for piece in Pieces(found, DEFAULT_LIMITS):
        reader.take(piece)
    return reader.finish()


LAYOUTS = (
    ("{step}/mp_rank_00_model_states.pt", "{step}/zero_pp_rank_0_mp_rank_00_optim_states.pt", "latest"),
    ("checkpoint-{step}/trainer_state.json", "checkpoint-{step}/model.safetensors", "checkpoint-{step}/config.json"),
    ("step-{step}/.metadata", "step-{step}/__0_0.distcp"),
    ("epoch=1-step={step}.ckpt", "model_{step}.pt"),
)


def _checkpoints(data: bytes, place: Path) -> Any:
    """Folders as libraries save them; what is changed is what stands in their files, and their numbers."""
    folder = place / "saved"
    shutil.rmtree(folder, ignore_errors=True)
    number = str(int.from_bytes(data[:2], "little"))
    for name in LAYOUTS[len(data) % len(LAYOUTS)]:
        path = folder / name.format(step=number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return list(find_checkpoints([folder], world_size=2))


def _name(data: bytes, place: Path) -> Any:
    text = data[:200].decode("utf-8", "replace")
    return [rank_from_name(text), host_from_name(text), decide(data, text), *match_message(text)]


READERS: dict[str, Reader] = {
    "log": _log,
    "large log": _large_log,
    "stacks": _stacks,
    "recording": _dump,
    "manifest": _paper(read_manifest),
    "pace": _paper(pace.read_pace),
    "compared": _paper(compared.read_compared),
    "checkpoints": _paper(listing.read_listing),
    "earlier": _paper(earlier.read_listing),
    "nodes": _paper(nodes.read_nodes),
    "machine": _paper(machine_series.read_machine_series),
    "settings": _paper(run_settings.read_run_settings),
    "trace": _file(read_trace),
    "series": _file(read_rank_series),
    "saved": _checkpoints,
    "file": _any_file,
    "name": _name,
}
_KIND_OF = {
    Kind.LOG: "log", Kind.STACKS: "stacks", Kind.RECORDING: "recording", Kind.MANIFEST: "manifest", Kind.PACE: "pace",
    Kind.COMPARED: "compared", Kind.CHECKPOINTS: "checkpoints", Kind.EARLIER: "earlier", Kind.NODES: "nodes",
    Kind.MACHINE: "machine",
}  # fmt: skip
SHARES = (
    ("log",) * 6 + ("stacks",) * 3 + ("recording",) * 3 + tuple(sorted(set(READERS) - {"log", "stacks", "recording"}))
)
"""Which reader gets the next input: logs are most of what is given to us."""


@cache
def reader_seeds() -> dict[str, tuple[bytes, ...]]:
    """By reader: the files of all cases that it reads, and made ones of the formats that no case has."""
    found: dict[str, list[bytes]] = {name: [] for name in READERS}
    for seed in case_seeds():
        for name, content in seed.files.items():
            kind = _KIND_OF.get(decide(content[:HEAD_BYTES], name).kind)
            if kind is not None and len(content) < 40_000:
                found[kind].append(content)
    for name, made in _made().items():
        found[name] += made
    found["large log"] = found["log"]
    found["stacks"] += [path.read_bytes() for path in sorted(STACKS.iterdir())]
    everything = [content for name in sorted(found) for content in found[name][:40]]
    found["file"] = [*everything, *(packed({"a.log": each[:2000]}, kind) for each in everything[:6] for kind in KINDS)]
    found["name"] = [name.encode() for seed in case_seeds() for name in seed.files] + [foreign(Random(0), b"")] * 9
    return {name: tuple(contents) for name, contents in found.items()}


def _made() -> dict[str, list[bytes]]:
    entries = [make_entry("2.13") | {"record_id": at, "collective_seq_id": at} for at in range(8)]
    dumps = [make_dump(version, entries) for version in ("2.4", "2.13")]
    lines: list[dict[str, Any]] = [
        {"schema": "unhang.series/1", "width_s": 1.0},
        {"site": 1, "place": ["/a.py", 4, "f"]},
    ]
    lines += [
        {"rank": at % 2, "step": 50 * at, "steps": 50, "took_s": 0.5, "looks": 60, "doing": [[1, "log", False, 12]]}
        for at in range(1, 9)
    ]
    settings = {"schema": run_settings.SCHEMA, "world_size": 2, "nodes": [], "environment": {"A": "1"}}
    checkpoint = {"path": "/c/1", "layout": "deepspeed", "saved_s": 1.0, "size": 1, "step": 1, "flaw": "", "detail": ""}
    guilt = {"kind": "host", "name": "h1", "cause": "gpu-oom", "runs": 2, "last_s": 1.0}
    gathered = io.BytesIO()
    with zipfile.ZipFile(gathered, "w") as archive:  # as torch.save packs it
        archive.writestr("model/data.pkl", pickle_like_torch(dumps[0]))
    weights = b"\x40\0\0\0\0\0\0\0" + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'.ljust(64) + b"\0" * 4
    return {
        "saved": [gathered.getvalue(), weights, b'{"global_step": 7, "weight_map": {"a": "x.safetensors"}}', b"7"],
        "recording": [*(pickle_like_torch(dump) for dump in dumps), *(json.dumps(dump).encode() for dump in dumps)],
        "trace": [training(steps=4).text().encode(), training(1, steps=3, first=9).text().encode()],
        "series": ["".join(json.dumps(line) + "\n" for line in lines).encode()],
        "settings": [json.dumps(settings).encode()],
        "checkpoints": [json.dumps({"schema": listing.SCHEMA, "checkpoints": [checkpoint] * 2}).encode()],
        "earlier": [json.dumps({"schema": earlier.SCHEMA, "guilty": [guilt] * 2}).encode()],
    }


def made(rng: Random, number: int) -> tuple[str, bytes]:
    """(reader, what it is given)."""
    name = SHARES[number % len(SHARES)]
    known = reader_seeds()[name]
    data = known[number // len(SHARES) % len(known)]
    if name in ("log", "large log", "stacks"):
        lines = data.split(b"\n")
        at = rng.randrange(max(1, len(lines) - WINDOW // 2))
        data = b"\n".join(lines[at : at + WINDOW])
    if name == "file" and data[:2] in (b"PK", b"\x1f\x8b"):
        return name, mutated_archive(rng, data)
    if name in ("log", "large log") and rng.random() < 0.3:
        return name, foreign(rng, data)
    return name, mutated(rng, data, rng.choice((1, 1, 2, 3))).data


def check(name: str, data: bytes, place: Path) -> Iterator[str]:
    """What is wrong with how the reader ``name`` takes ``data``."""
    try:
        found = READERS[name](data, place)
    except Exception as error:  # noqa: BLE001 - the property: a reader never raises
        from unhang.errors import failure

        yield f"failed: {name}: {failure(error)}"
        return
    for item in found if isinstance(found, list) else [found]:
        told = (item,) if isinstance(item, Unread) else getattr(item, "unread", ())
        yield from (f"failed: {name}: {each.reason}" for each in told if each.failed)


def seed_of(name: str, data: bytes) -> Seed:
    """For the corpus."""
    return Seed(name, {name: data})
