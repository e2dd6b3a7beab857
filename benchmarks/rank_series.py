"""What the series of every rank costs the watcher: ``python -m benchmarks.rank_series [RANKS…]``.

An hour of a job, looked at four times a second as the watcher does: processor time, the median look that writes, the
longest look (it makes the file smaller), bytes written, the file that is left, and how many rows it holds of a rank.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from unhang.findings import Source
from unhang.watch import private_files
from unhang.watch.job.wait_detection import RankSample
from unhang.watch.pace.rank_series import RankSeries
from unhang.wire.documents.rank_series import SERIES_PATH
from unhang.wire.record_views import CodeLine, GroupProgress, RankIdentity, RecordView
from unhang_compare.rank_times import RankTimes, read_rank_series

SECONDS = 3600
LOOKS_A_S = 4


def main() -> None:
    """A row for each number of ranks."""
    print("| ranks | processor time an hour | a write | longest look | written an hour | file | rows a rank |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for ranks in [int(word) for word in sys.argv[1:]] or [8, 1_024, 2_048]:
        print(_row(ranks), flush=True)


def _row(ranks: int) -> str:
    chance = random.Random(7)
    looks = {rank: RankSample(_view(rank)) for rank in range(ranks)}
    took: list[float] = []
    writes: list[float] = []
    written = [0]
    append = private_files.append
    with tempfile.TemporaryDirectory() as folder:
        series = RankSeries(Path(folder))

        def counted(path: Path, content: bytes) -> None:
            written[0] += len(content)
            append(path, content)

        private_files.append = counted
        looked = -1.0
        for tick in range(SECONDS * LOOKS_A_S):
            now = 1.0 + tick / LOOKS_A_S
            if now - looked >= 1.0:
                looked, looks = now, {rank: RankSample(_later(look.view, now, chance)) for rank, look in looks.items()}
            before, start = written[0], time.process_time()
            series.add(looks, now)
            took.append(time.process_time() - start)
            if written[0] > before:
                writes.append(took[-1])
        series.close()
        private_files.append = append
        size = (Path(folder) / SERIES_PATH).stat().st_size
        found = read_rank_series(Path(folder) / SERIES_PATH, source=Source("series"))
    rows = len(found[0].step_s) if isinstance(found, tuple) and isinstance(found[0], RankTimes) else 0
    return (
        f"| {ranks:,} | {sum(took):.1f} s | {1e3 * median(writes):.1f} ms | {1e3 * max(took):.0f} ms | "
        f"{written[0] / (1 << 20):.1f} MiB | {size / (1 << 20):.1f} MiB | {rows} |"
    )


def _view(rank: int) -> RecordView:
    view = RecordView(identity=RankIdentity(pid=10_000 + rank, rank=rank))
    view.groups = [GroupProgress("0", 2, completed=0)]
    view.collectives_per_step = 3
    return view


def _later(view: RecordView, now: float, chance: random.Random) -> RecordView:
    """Steps of half a second; rank 3 waits less than the others."""
    beat_ns, steps = int((now + chance.random()) * 1e9), int(2 * now)
    waits = chance.random() < 0.4 - 0.3 * (view.identity.rank == 3)
    return replace(
        view,
        beat_ns=beat_ns,
        beat_wall_ns=1_760_000_000_000_000_000 + beat_ns,
        steps=steps,
        last_step_ns=int(steps / 2 * 1e9) + chance.randrange(50_000_000),
        step_durations_ns=[int(5e8 * (1 + chance.random() / 10))] * 2,
        groups=[GroupProgress("0", 2, completed=3 * steps)],
        phase="communication" if waits else "compute",
        user=CodeLine("/job/train.py", 30 + 10 * waits, "main"),
    )


if __name__ == "__main__":
    main()
