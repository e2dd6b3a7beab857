"""The dumps of one stalled job as different programs write them: torch itself, and collectors that write them again."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unhang_lab.dump_writer import StalledJob, json_like_torch, pickle_like_torch


def _other_order(dump: dict[str, Any]) -> dict[str, Any]:
    """Keys sorted, so that the status stands behind the entries."""
    entries = [{key: entry[key] for key in sorted(entry)} for entry in dump["entries"]]
    return {key: dump[key] for key in sorted(dump)} | {"entries": entries}


def _more_keys(dump: dict[str, Any]) -> dict[str, Any]:
    return {"collected_by": {"host": "n1"}} | dump | {"entries": [{"node": "n1"} | one for one in dump["entries"]]}


def _unshared(dump: dict[str, Any]) -> Any:
    """As it comes out of JSON: equal frames and texts are objects of their own."""
    return json.loads(json.dumps(dump))


WRITERS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "torch": pickle_like_torch,
    **{f"protocol-{protocol}": lambda dump, p=protocol: pickle.dumps(dump, p) for protocol in range(6)},  # type: ignore[misc]
    "protocol-2-unshared": lambda dump: pickle.dumps(_unshared(dump), 2),
    "protocol-4-unshared": lambda dump: pickle.dumps(_unshared(dump), 4),
    "other-order": lambda dump: pickle.dumps(_other_order(dump), 4),
    "more-keys": lambda dump: pickle.dumps(_more_keys(dump), 4),
    "json": lambda dump: json_like_torch(dump).encode(),
}


def write_again(job: StalledJob, folder: Path, writer: str, prefix: str) -> int:
    """Write the dumps of ``job`` into ``folder`` as ``writer`` does; gives their bytes in all."""
    folder.mkdir(parents=True)
    encode = WRITERS[writer]
    size = 0
    for rank, content in job.dumps():
        again = content if writer == "torch" else encode(pickle.loads(content))
        size += (folder / f"{prefix}{rank}").write_bytes(again)
    return size
