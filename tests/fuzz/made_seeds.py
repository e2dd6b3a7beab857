"""Seeds for formats that few cases have, or that no case has in all its shapes: as the tools write them, made small."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.trace_samples import Sample, training
from unhang_lab.dump_writer import StalledJob, json_like_torch, make_dump, make_entry, pickle_like_torch

SAVED = Path(__file__).with_name("saved")
LOG = b"[rank0]: step 1 loss 2.0\n[rank1]: step 1 loss 2.0\n" * 9


def made() -> dict[str, list[bytes]]:
    """By reader."""
    dumps = recordings()
    return {
        "saved": [path.read_bytes() for path in sorted(SAVED.glob("*.zip"))],
        "recording": dumps,
        "confined": dumps,
        "many dumps": dumps,
        "stacks": stacks(),
        "trace": traces(),
        "series": series(),
        "file": archives(),
        "pipe": archives(),
        "folder": folders(),
        **papers(),
    }


# flight-recorder dumps


def recordings() -> list[bytes]:
    """Of every version, long ones whose end alone is read, point-to-point, Gloo; re-pickled, JSON."""
    few = [make_entry("2.13") | {"record_id": at, "collective_seq_id": at} for at in range(8)]
    short = [make_dump(version, few) for version in ("2.4", "2.13")]
    found = [*map(pickle_like_torch, short), *(json.dumps(dump).encode() for dump in short)]
    job = StalledJob(ranks=8, entries=200, frames=3, laggard=1)
    found += [data for _, data in job.dumps(2)]
    whole = pickle.loads(found[-1])
    found += [pickle.dumps(whole, protocol) for protocol in (0, 2, 4, 5)] + [json_like_torch(whole).encode()]
    for version in ("2.2", "2.3", "2.8", "2.15"):
        old = StalledJob(ranks=4, entries=90, frames=2, torch_version=version, tensor_parallel=2)
        dump = old.recorded(0, late=False)
        found.append(pickle_like_torch(dump if version == "2.2" else old.head(0, late=False) | {"entries": dump}))
        found.append(pickle.dumps(dump, 4))
    return [*found, *map(pickle_like_torch, (_point_to_point(), _gloo()))]


def _point_to_point() -> Any:
    sends = [
        make_entry(record_id=at, pg_id=1, group=("1", "pp"), position=at + 1, operation=f"nccl:{what}", is_p2p=True,
                   state="completed" if at < 150 else "scheduled", timeout_ms=at)
        for at, what in enumerate(("send 0->1", "recv 0<-1") * 80)
    ]  # fmt: skip
    return make_dump("2.13", sends, groups={"1": ("pp", range(2))}, status={"1": (160, 150, 140), "0": (9, 9, 9)})


def _gloo() -> Any:
    entries = [make_entry(record_id=at, position=at, operation="gloo:barrier", state="scheduled", frames=[])
               for at in range(600)]  # fmt: skip
    return make_dump("2.13", entries, status={"0": (600, 599, 598)}, comm_state={"0x1": {"rank": "0"}})


# stacks


def stacks() -> list[bytes]:
    """gdb with names of programs and of libraries, py-bt and py-bt-full, pstack, eu-stack; cut, coloured, UTF-16."""
    gdb = (
        'Thread 2 (Thread 0x7f01 (LWP 11) "pt_gloo_runloop" (Exiting)):\n'
        "#0  0x00007f26f in __GI___poll (fds=0x7fe4, nfds=1) at ../sysdeps/poll.c:29\n"
        "#1  0x00007f501 in c10d::ProcessGroupGloo::runLoop(int) () from /usr/lib/libtorch_cpu.so\n"
        '#2  <signal handler called>\n#3  0x00007f0 in ?? ()\n#4  f (text=0x1 "a) from b") at a.c:3\n'
        "Thread 1 (Thread 0x7f02 (LWP 10)):\n#0  0x00007f in c10d::Work::wait(long) () from /x/libtorch.so\n"
        "Traceback (most recent call first):\n"
        '  File "/job/train.py", line 18, in step\n    dist.barrier()\n  File "/job/train.py", line 40, in <module>\n'
    )
    full = (
        "Thread 1 (LWP 5):\n#5 Frame 0x7f12, for file /job/train.py, line 18, in step (self=<Trainer at remote 0x7f>)\n"
        "    loss.backward()\n#9 Frame 0x7f13, for file /job/train.py, line 40, in <module> ()\n"
    )
    eu = (
        "PID 30 - process\nTID 30:\n#0  0x00007f1 poll\n#1  0x00007f2 main\nTID 31:\n#0  0x00007f3 futex\n"
        "PID 40 - core\nTID 40:\n"
    )
    bare = "#0  0x00007f0000000001 in poll () from libc.so.6\n#1  0x00007f0000000002 in main () from x\n"
    attached = "Attaching to process 5\n" + gdb + "Attaching to process 7\n" + gdb + "$ pstack 9\n" + bare
    ours = (
        'Thread 9 (idle): "MainThread"\n    wait (/x/unhang/inprocess/session.py:4)\n'
        "    f (train.py:3)\n    <module> (train.py:9)\n"
        'Thread 8 (idle): "unhang"\n    wait (threading.py:4)\n    _run (/x/unhang/inprocess/session.py:40)\n'
    )
    python = 'Process 9: python train.py\nPython v3.11.7\n\nThread 9 (active+gil): "MainThread"\n    f (a.py:3)\n'
    fault = (
        "Fatal Python error: Segmentation fault\n\nThread 0x00007f01 [pt_autograd_0] (most recent call first):\n"
        '  File "/j/t.py", line 3 in f\n  ...\n\nCurrent thread 0x00007f02 (most recent call first):\n'
        '  File "/j/t.py", line 9 in <module>\n\nExtension modules: numpy._core, torch._C (total: 2)\n'
        "Timeout (0:00:05)!\nThread 0x00007f03 (most recent call first):\n  <no Python frame>\n"
    )
    c_stack = (
        "Fatal Python error: Aborted\n\nCurrent thread 0x00007f02 (most recent call first):\n"
        '  File "/j/t.py", line 9 in <module>\n\nCurrent thread\'s C stack trace (most recent call first):\n'
        '  Binary file "python", at _Py_DumpStack+0x48 [0x70dbe4]\n  Binary file "/lib/libc.so.6" [0x7f12]\n'
        "  <truncated rest of calls>\nExtension modules: torch._C (total: 1)\n"
    )
    ranked = "".join(f"[rank3]: {line}\n" for line in (c_stack + fault).splitlines())
    texts = (gdb, full, eu, eu + eu, bare, bare + bare, attached, gdb + gdb, "Process 9: x\n\n" + ours, ours,
             python + gdb, python + "    <module> (a.py:9)\n" + python, fault, fault + gdb, c_stack, c_stack * 2,
             ranked)  # fmt: skip
    plain = [text.encode() for text in texts]
    return [*plain, gdb.encode("utf-16"), b"\x1b[31m" + gdb.encode() + b"\x1b[0m\0", bare.encode() * 30]


# traces


def _on_a_card() -> Sample:
    sample = Sample(head={"deviceProperties": [{"id": 0, "name": "H200"}, {"id": 1, "name": "H200"}, 3],
                          "cuda_runtime_version": 12080, "trace_id": "x"})  # fmt: skip
    for step in range(8):
        at = 30.0 * step
        sample.add("user_annotation", f"ProfilerStep#{step}", at, 28)
        sample.add("python_function", "model.py(12): forward", at + 1, 9)
        sample.add("cpu_op", "aten::mm", at + 2, 1, **{"External id": 7 + step, "Call stack": "a.py(3): f"})
        sample.add("python_function", "nn.Module: Linear_0", at + 2, 3)
        sample.add("python_function", "torch/profiler/profiler.py(12): step", at - 0.5, 1e5)
        sample.add("python_function", "<built-in method _record_function_enter of PyCapsule object at 0x7f>", at + 4, 1)
        sample.add(
            "python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>", at + 11, 6
        )
        sample.add("cpu_op", "autograd::engine::evaluate_function: MmBackward0", at + 12, 4, tid=200)
        sample.add("cpu_op", "c10d::allreduce_", at + 18, 2)
        sample.add("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 20, 1)
        sample.add(
            "python_function", "<built-in method of pybind11_builtins.pybind11_object object at 0x7>", at + 21, 1
        )
        sample.add("cuda_runtime", "cudaDeviceSynchronize", at + 22, 4)
        sample.add("kernel", "sm90_gemm", at + 4, 3, tid="stream 7", **{"External id": str(7 + step), "stream": 7})
        sample.add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", at + 10, 60, tid=20)
        sample.add("kernel", "x" * 300 + "\x07", at + 25, 1, tid=20, **{"External id": 1 << 40})
        sample.add("gpu_memcpy", "Memcpy HtoD", 1e4 + at, 1, tid=21)
        sample.add("Trace", "PyTorch Profiler (0)", 0, 1e6)
    return sample


def traces() -> list[bytes]:
    """With steps, with the optimizer's only, without any; kernels of cards; packed, bare, many and damaged events."""
    optimizer = Sample(None)
    for at in range(5):
        optimizer.add("cpu_op", "aten::mm", 10 * at, 8)
        optimizer.add("user_annotation", "Optimizer.step#AdamW.step", 10 * at + 8, 1)
    alone = Sample()
    alone.add("cpu_op", "aten::mm", 0, 8)
    nested = training(steps=3)
    for at, event in enumerate(nested.events):
        event["args"] = {"note": 'a text with }, { "ph": "X" in it', "list": [{"a": 1}, {"b": [{}, {}]}], "n": at}
    nested.events += [
        {"ph": "X", "name": ["no", "text"], "ts": 5.0, "cat": "cpu_op"},
    ]
    card = _on_a_card().text().encode()
    return [
        *(sample.text().encode() for sample in (training(steps=4), training(1, steps=3, first=9), training(steps=60))),
        *(sample.text().encode() for sample in (optimizer, alone, nested)),
        *(card, gzip.compress(card, mtime=0), json.dumps(_on_a_card().events).encode(), b'{"traceEvents": []}'),
    ]


# series of ranks


def _row(rank: int, at: int, **parts: Any) -> dict[str, Any]:
    seen = [[1, "log", False, 12], [2, "communication", True, 30 + rank % 2]]
    row = {"rank": rank, "attempt": 0, "at_s": 1.5 * at, "step": 50 * at, "steps": 50, "took_s": 0.5, "longest_s": 0.1}
    more = {"for_s": 0.5, "calls": 150 * at, "calls_a_step": 3, "looks": 60, "waits": 4, "doing": seen}
    return {**row, **more, **parts}


def series() -> list[bytes]:
    """Rows of two ranks and of six, counted collectives before steps, a second attempt, rows without an end."""
    head: list[dict[str, Any]] = [
        {"schema": "unhang.series/1", "width_s": 1.0},
        {"site": 1, "place": ["/a.py", 4, "f"]},
        {"site": 2, "place": ["", 0, ""]},
    ]
    rows = [_row(at % 2, at) for at in range(1, 9)]
    wide = [_row(rank, at) for at in range(1, 6) for rank in range(6)]
    other = [_row(rank, 7, attempt=1) for rank in range(6)]
    counted = [_row(0, at, step=0, steps=0, took_s=0.0) for at in range(1, 4)] + [_row(0, 5, took_s=0.0), _row(0, 6)]
    return [_lines([*head, *more]) for more in (rows, wide, [*wide, *other], counted, [*rows, *wide])]


def _lines(rows: Iterable[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


# our own papers


def papers() -> dict[str, list[bytes]]:
    """Of which no case holds one."""
    settings = {"schema": "unhang.settings/1", "world_size": 2, "nodes": [], "environment": {"A": "1"}}
    checkpoint = {"path": "/c/1", "layout": "deepspeed", "saved_s": 1.0, "size": 1, "step": 1, "flaw": "", "detail": ""}
    guilt = {"kind": "host", "name": "h1", "cause": "gpu-oom", "runs": 2, "last_s": 1.0}
    return {
        "settings": [json.dumps(settings).encode(), json.dumps(settings | {"schema": "unhang.settings/9"}).encode()],
        "pace": [b'{"schema": "unhang.pace/9"}'],
        "checkpoints": [json.dumps({"schema": "unhang.checkpoints/1", "checkpoints": [checkpoint] * 2}).encode()],
        "earlier": [json.dumps({"schema": "unhang.history/1", "guilty": [guilt] * 2}).encode()],
    }


# archives


def _zip(files: dict[str, bytes], *, flags: int = 0, link: bool = False) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            if link:
                info.external_attr = 0o120777 << 16
            archive.writestr(info, content)
    data = bytearray(target.getvalue())
    central = data.rfind(b"PK\x01\x02")
    if flags and central >= 0:  # said to be encrypted, where it is listed and where it begins
        data[central + 8] |= flags
        data[6] |= flags
    return bytes(data)


def _tar(members: list[tuple[str, bytes, bytes]], form: int = tarfile.GNU_FORMAT) -> bytes:
    """(name, type, content) each."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.log" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


def _zstd(content: bytes) -> bytes:
    """One frame with one block as it is."""
    head = b"\x28\xb5\x2f\xfd\x20" + bytes([len(content)])
    return head + (1 | len(content) << 3).to_bytes(3, "little") + content


def archives() -> list[bytes]:
    """Every packing, and members that are no files, lead out, are encrypted, are many, are archives again, or bombs."""
    files = {"rank_0.log": LOG, "logs/rank_1.log": LOG, "logs/": b"", "train.py": b"import torch\n"}
    regular = [(name, tarfile.REGTYPE, content) for name, content in files.items() if content]
    kinds = (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
    odd = [*((f"odd{at}", kind, b"") for at, kind in enumerate(kinds)),
           ("../out.log", tarfile.REGTYPE, LOG), ("/etc/x", tarfile.REGTYPE, LOG)]  # fmt: skip
    long = [("n" * 300 + ".log", tarfile.REGTYPE, LOG)]
    tar = _tar([*odd, *regular])
    bomb = b"step 1\n" * 9_000
    pax = _tar(long, tarfile.PAX_FORMAT)
    huge_header = bytearray(pax)
    huge_header[124:135] = b"00010000000"  # of the extended header: 2 MiB
    huge_header[148:156] = b"%06o\0 " % (sum(huge_header[:148]) + 8 * 32 + sum(huge_header[156:512]))
    packed_tar = gzip.compress(tar, mtime=0)
    return [
        *(_zip(files), _zip({"a.log": LOG}, flags=1), _zip({"a.log": b"/etc/passwd"}, link=True)),
        *(_zip({"..\\x": LOG, "C:x": LOG}), _zip({f"{at}.log": LOG for at in range(9)})),
        *(_zip({"in.tar.gz": packed_tar, "in.zip": _zip(files)}), tar, packed_tar, bz2.compress(tar)),
        *(lzma.compress(tar), _tar(long), pax, bytes(huge_header)),
        _tar([(f"{at}.log", tarfile.REGTYPE, LOG) for at in range(9)]),
        _tar([("in.zip", tarfile.REGTYPE, _zip(files))]),
        *(gzip.compress(LOG, mtime=0), bz2.compress(LOG), lzma.compress(LOG), _zstd(LOG[:200])),
        *(gzip.compress(bomb, mtime=0), gzip.compress(_tar([("b.log", tarfile.REGTYPE, bomb)]), mtime=0)),
        *(_zip({"b.log": bomb}), gzip.compress(_zip(files), mtime=0), b"\0" * 70_000 + LOG),
    ]


def folders() -> list[bytes]:
    """A zip each, which the reader lays out."""
    dump = pickle_like_torch(make_dump("2.13", [make_entry("2.13")]))
    return [
        _zip(
            {"rank_0.log": LOG, "rank_1.log": LOG, "dumps/rank_0": dump, ".git/x.log": LOG, "a/b/c/d/e/f/deep.log": LOG}
        ),
        _zip({"job.tar": archives()[7], "x.log": LOG, "train.py": b"import torch\n", "stacks/rank_0.txt": stacks()[0]}),
        _zip({f"n{at}/rank_{at}.log": LOG for at in range(6)}),
        _zip({"empty": b""}),
    ]
