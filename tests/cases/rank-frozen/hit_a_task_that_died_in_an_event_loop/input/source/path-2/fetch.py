"""Fetches a list of objects with a few asynchronous readers."""
import asyncio
import struct


async def read_object(store, key):
    await asyncio.sleep(0.01)
    return store[key]


def decode(blob):
    count = struct.unpack_from("<I", blob)[0]
    return struct.unpack_from(f"<{count}f", blob, 4)


async def reader(store, todo, found):
    while True:
        key = await todo.get()
        blob = await read_object(store, key)
        found[key] = decode(blob)
        todo.task_done()


async def fetch_all(store, keys, readers=6):
    todo, found = asyncio.Queue(), {}
    for key in keys:
        todo.put_nowait(key)
    tasks = [asyncio.create_task(reader(store, todo, found)) for _ in range(readers)]
    await todo.join()
    for t in tasks:
        t.cancel()
    return found


def fetch(store, keys):
    return asyncio.run(fetch_all(store, keys))
