"""Work done a little ahead by a few threads, answers in order: hides the latency of storage, keeps memory bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

THREADS = 8
CHUNKS_AHEAD = 12
CHUNK_ITEMS = 32
CHUNK_BYTES = 4 << 20

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def prefetch(
    items: Iterable[Item], work: Callable[[Item], Answer], *, weigh: Callable[[Item], int] = lambda _: 0
) -> Iterator[Answer]:
    """``work(item)`` for each item, in order. ``weigh`` gives the bytes an answer will hold."""
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="unhang-reshard")
    waiting: deque[Future[list[Answer]]] = deque()
    try:
        for chunk in _chunks(items, weigh):
            waiting.append(pool.submit(lambda part: [work(item) for item in part], chunk))
            if len(waiting) >= CHUNKS_AHEAD:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chunks(items: Iterable[Item], weigh: Callable[[Item], int]) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    weight = 0
    for item in items:
        chunk.append(item)
        weight += weigh(item)
        if len(chunk) >= CHUNK_ITEMS or weight >= CHUNK_BYTES:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk
