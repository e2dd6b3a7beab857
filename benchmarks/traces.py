"""Measure reading a large trace of torch.profiler: ours beside ``json.load``, ijson and HolisticTraceAnalysis.

    python -m benchmarks traces                      # 2,000 MB for us and ijson, 400 MB for those who hold it all
    python -m benchmarks traces --size 5000 --packed

The trace is one that torch records here (Python stacks included), repeated with its times and step numbers moved on.
Every contestant runs in a fresh process; the table gives its clock and processor time, MB/s by the clock, and the peak
of its memory. Those that are not installed are left out: ``pip install ijson HolisticTraceAnalysis``.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

_RECORD = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, schedule
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
optimizer = torch.optim.AdamW(model.parameters())
def step(data):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=10, repeat=1),
             with_stack=True, on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1])) as profiler:
    for _ in range(12):
        step(torch.randn(32, 64))
        profiler.step()
"""
_OURS = """
import sys
from pathlib import Path
from unhang_compare.kineto.reading import read_trace
found = read_trace(Path(sys.argv[1]))
assert len(found.step_s) and not found.unread, found
"""
_JSON = "import gzip, json, sys\nn = sys.argv[1]\njson.load((gzip.open if n.endswith('gz') else open)(n, 'rb'))"
_IJSON = """
import gzip, ijson, sys
n = sys.argv[1]
for event in ijson.items((gzip.open if n.endswith('gz') else open)(n, 'rb'), 'traceEvents.item', use_float=True):
    pass
"""
_HTA = "import sys\nfrom hta.trace_analysis import TraceAnalysis\nTraceAnalysis(trace_files={0: sys.argv[1]})"
_TIME, _STEP = re.compile(rb'"ts": ([\d.]+)'), re.compile(rb"ProfilerStep#(\d+)")


def _later_step(by: int, found: re.Match[bytes]) -> bytes:
    return b"ProfilerStep#%d" % (int(found[1]) + by)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the traces, run everybody, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2000, help="MB (plain) for us and ijson")
    parser.add_argument("--others", type=int, default=400, help="MB (plain) for those who hold everything in memory")
    parser.add_argument("--packed", action="store_true", help="gzip the traces")
    parser.add_argument("--folder", type=Path, help="where to write them (default: a temporary folder)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        recorded = Path(folder) / "recorded.json"
        subprocess.run([sys.executable, "-c", _RECORD, recorded], check=True, capture_output=True)
        large, small = (
            repeated(recorded, Path(folder) / f"rank0_{size}.json", size * 1_000_000, packed=chosen.packed)
            for size in (chosen.size, min(chosen.size, chosen.others))
        )
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        print("| | MB | s | s of processor | MB/s | MiB at most |\n|---|--:|--:|--:|--:|--:|")
        for name, program, (path, size) in (
            ("unhang", _OURS, large),
            ("unhang", _OURS, small),
            ("ijson", _IJSON, small),
            ("json.load", _JSON, small),
            ("HolisticTraceAnalysis", _HTA, small),
        ):
            print(_row(name, program, path, size / 1e6), flush=True)
    return 0


def repeated(recorded: Path, path: Path, size: int, *, packed: bool) -> tuple[Path, int]:
    """``recorded`` again and again, moved on in time, until it is ``size`` bytes; its path and plain size."""
    text = recorded.read_bytes()
    begin = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    end = text.rindex(b"]")
    parts = _TIME.split(text[begin:end])
    times = [float(part) for part in parts[1::2]]
    span = max(times) - min(times) + 10_000
    steps = len(set(_STEP.findall(text)))
    path = path.with_suffix(".json.gz") if packed else path
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        written = file.write(text[:begin])
        for number in range(1 << 30):
            moved = zip(parts[0::2], (b'"ts": %.3f' % (at + number * span) for at in times), strict=False)
            piece = b"".join(part for pair in moved for part in pair) + parts[-1]
            piece = _STEP.sub(partial(_later_step, steps * number), piece)
            written += file.write(piece if number == 0 else b"," + piece)
            if written >= size:
                break
        written += file.write(text[end:])
    return path, written


def _row(name: str, program: str, path: Path, size: float) -> str:
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return f"| {name} | {size:,.0f} | {(said.strip().splitlines() or ['ended by a signal'])[-1][:80]} | | | |"
    cpu = usage.ru_utime + usage.ru_stime
    return f"| {name} | {size:,.0f} | {took:.1f} | {cpu:.1f} | {size / took:.0f} | {usage.ru_maxrss / 1024:,.0f} |"
