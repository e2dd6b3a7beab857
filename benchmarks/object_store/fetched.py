"""How many bytes of each object are fetched, and how often each: counted from the requests that pass a link."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from benchmarks.object_store.answers import URL, diagnose
from benchmarks.object_store.cluster import environment_for, s3_server, slow_link
from benchmarks.object_store.evidence import Store

Span = tuple[int, int]


def fetched(store: Store, scratch: Path, options: argparse.Namespace) -> None:
    """The table of logs and dumps, and whether the verdict is that from the files themselves."""
    whole = diagnose(str(store.folder), scratch, environment_for(None), limit_s=options.limit)
    asked = scratch / "requests"
    asked.unlink(missing_ok=True)
    with s3_server(store.root) as server, slow_link(server, scratch) as link:
        answer = diagnose(URL, scratch, environment_for(link), limit_s=options.limit)
    sizes = {
        path.relative_to(store.root).as_posix(): path.stat().st_size for path in store.root.rglob("*") if path.is_file()
    }
    spans, others = spans_asked(asked.read_text(), sizes)
    print(f"\n### What is fetched, {store.size / 1e9:.2f} GB\n")
    print("| | objects | bytes | fetched | share | most of one | fetched twice, bytes | requests an object |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for kind in ("dumps", "logs"):
        names = [name for name in sizes if f"/{kind}/" in name]
        if names:
            _row(kind, names, sizes, spans)
    told = answer.lead if answer.verdict else answer.ended.err[-300:]
    print(f"\nother requests (lists, heads): {others}; verdict: {told}; of the files themselves: {whole.lead}")
    print(f"word for word the same: {'yes' if answer.same_as(whole) else 'no'}", flush=True)


def _row(kind: str, names: Sequence[str], sizes: Mapping[str, int], spans: Mapping[str, list[Span]]) -> None:
    total = sum(sizes[name] for name in names)
    asked = {name: sum(end - start for start, end in spans.get(name, [])) for name in names}
    once = {name: _covered(spans.get(name, [])) for name in names}
    most = max(once[name] / max(1, sizes[name]) for name in names)
    requests = sum(len(spans.get(name, [])) for name in names) / len(names)
    got, twice = sum(once.values()), sum(asked.values()) - sum(once.values())
    share = f"{got / total:.1%} | {most:.1%}"
    print(f"| {kind} | {len(names)} | {total:,} | {got:,} | {share} | {twice:,} | {requests:.1f} |")


def spans_asked(lines: str, sizes: Mapping[str, int]) -> tuple[dict[str, list[Span]], int]:
    """Of each object the ranges (first byte, byte behind the last) that were asked for; how many other requests."""
    spans: dict[str, list[Span]] = defaultdict(list)
    others = 0
    for line in lines.splitlines():
        asked = json.loads(line)
        name = unquote(asked["path"].partition("?")[0]).lstrip("/")
        if asked["method"] != "GET" or name not in sizes:
            others += 1
            continue
        first, last, size = asked["first"], asked["last"], sizes[name]
        start = int(first) if first else size - int(last) if last else 0
        spans[name].append((max(0, start), min(size, int(last) + 1) if first and last else size))
    return spans, others


def _covered(spans: Sequence[Span]) -> int:
    """Bytes in at least one of ``spans``."""
    covered, reached = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered
