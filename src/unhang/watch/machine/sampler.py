"""The process that samples the machine: ``python -m unhang.watch.machine.sampler RUN_FOLDER RECORDS WATCHER``.

Started by the watcher, with the lowest priority but one; it ends with the watcher, and nothing waits for it. SIGUSR1
asks for a sample now.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unhang.host.machine import Machine
from unhang.host.own_process import end_with_parent
from unhang.watch import private_files
from unhang.watch.machine.cards import CardSampler, Xids, card_of_rank, device_choice
from unhang.watch.machine.control_groups import ControlGroups
from unhang.watch.machine.counters import KernelPaths
from unhang.watch.machine.network import Network
from unhang.watch.machine.processor_use import Pressure, ProcessorUse, belongs_to_job
from unhang.watch.machine.series_file import SeriesFile
from unhang.watch.machine.storage import Storage, paths_of_run
from unhang.watch.run_folder import RunFolder
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.process_registration import NCCL_LOG_FOLDER, host_name
from unhang.wire.record import read_records
from unhang.wire.record_views import RecordView

EVERY_S = 10.0
FIRST_S = 2.0
"""Rates need two samples; the second comes early."""
NICE = 15
FIRST_NAMESPACE = 0xEFFFFFFC
"""The inode of the namespace of processes that the kernel starts with (``PROC_PID_INIT_INO``)."""
MAX_BYTES, MAX_FILES = 256 << 10, 1_024
"""Of NCCL's lines."""


class NcclStartupLogs:
    """NCCL's lines of the start: the ranks write them beside their records, from where they are kept in the run folder.

    NCCL writes as long as the job runs; what is beyond ``MAX_BYTES`` is cut off here, a few times a minute.
    """

    def __init__(self, records: Path, folder: Path) -> None:
        self._records, self._folder = records / NCCL_LOG_FOLDER, folder / NCCL_LOG_FOLDER

    def keep(self) -> None:
        """Copy what is new; cut what is too long. What cannot be copied is left out."""
        with suppress(OSError):
            names = sorted(os.listdir(self._records))[:MAX_FILES]  # noqa: PTH208 - names are all that is wanted
            for name in names:
                if name.endswith(".log") and not name.startswith("."):
                    self._keep(name)

    def _keep(self, name: str) -> None:
        with suppress(OSError):
            number = os.open(self._records / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as file:
                if os.fstat(number).st_size > MAX_BYTES:
                    os.ftruncate(number, MAX_BYTES)  # what it writes next lies behind a hole, and costs no memory
                kept = self._folder / name
                at = file.seek(kept.stat().st_size if kept.exists() else 0)
                if new := file.read(max(0, MAX_BYTES - at)):
                    private_files.make_folder(self._folder)
                    private_files.append(kept, new)  # who found it to read it finds no other file in its place


class MachineSampler:
    """One machine, from the first sample to the last."""

    def __init__(self, folder: Path, records: Path, plan: RunPlan, machine: Machine | None = None) -> None:
        here = KernelPaths()
        self._records, self._places = records, here
        self._file = SeriesFile(folder, {"node": host_name(), "every_s": EVERY_S})
        self._cards = CardSampler(machine or Machine())
        self._storage = Storage(here, lambda: paths_of_run(folder, plan.command, plan.cwd))
        self._network, self._pressure, self._groups = Network(here), Pressure(here), ControlGroups(here)
        self._processes = ProcessorUse(here, {plan.job_pid, plan.front_pid, os.getppid(), os.getpid()} - {0})
        self._xids, self._own_pids = Xids(here), _own_pids(here)
        self.nccl_lines = NcclStartupLogs(records, folder)
        self._at = 0.0
        self._used_s = _used_s()

    def sample(self, *, whole_look: bool = False) -> dict[str, Any]:
        """Take one, write it down, and return it."""
        now = time.monotonic()
        seconds, self._at = (now - self._at if self._at else 0.0), now
        views = self._views()
        ranks = {rank: view.identity.pid for rank, view in views.items()}
        row: dict[str, Any] = {"t_s": round(time.time(), 2), "for_s": round(seconds, 2), "node": host_name()}
        row |= self._pressure.sample(seconds)
        row |= self._storage.sample(seconds)
        row |= self._network.sample(seconds, min(ranks.values(), default=None))
        row |= self._groups.sample(ranks)
        row |= self._processes.sample(seconds, ranks)
        row |= self._xids.sample() | self._own_pids
        row |= self._cards.sample(whole_look=whole_look)
        self._set_owners(row, ranks)
        self._assign_cards(row, views)
        used_s, self._used_s = _used_s() - self._used_s, _used_s()
        row["cost_s"] = round(used_s, 4)
        self._file.add(row)
        self.nccl_lines.keep()
        return row

    def _views(self) -> Mapping[int, RecordView]:
        """Of each rank the newest process that lives, by rank."""
        newest: dict[int, RecordView] = {}
        for view in read_records(self._records).values():
            me = view.identity
            if me.rank < 0 or not (self._places.proc / str(me.pid)).exists():
                continue
            before = newest.get(me.rank)
            if before is None or (before.identity.armed_ns, before.identity.pid) < (me.armed_ns, me.pid):
                newest[me.rank] = view
        return dict(sorted(newest.items()))

    def _set_owners(self, row: dict[str, Any], ranks: Mapping[int, int]) -> None:
        """Whose the processes are: of the job, or somebody else's. No claim where pids are those of another world.

        A container sees no processes on the cards, or numbers that are not its own; only where a rank of ours is in
        the list is it one we can read.
        """
        job = self._processes.job
        others = [one for one in row.get("others", []) if not belongs_to_job(one["pid"], self._records)]
        on_cards = row.pop("on_cards", [])
        by_pid = {pid: rank for rank, pid in ranks.items()}
        told = {one["pid"] for one in on_cards}
        if told & set(by_pid):
            for rank_row in row.get("ranks", []):
                mine = [one["uuid"] for one in on_cards if one["pid"] == rank_row["pid"]]
                if mine:
                    rank_row["cards"] = mine
            others += [
                {
                    "pid": one["pid"],
                    **self._processes.owner_entry(one["pid"]),
                    "uuid": one["uuid"],
                    "card_mem": one["mem"],
                }
                for one in on_cards
                if one["pid"] not in job and not belongs_to_job(one["pid"], self._records)
            ]
        row.pop("others", None)
        if others:
            row["others"] = others

    def _assign_cards(self, row: dict[str, Any], views: Mapping[int, RecordView]) -> None:
        """Where the driver names none of our processes (a container): what each rank may see, if it uses cards."""
        rows = row.get("ranks", [])
        if any("cards" in one for one in rows) or not row.get("cards"):
            return
        for one in rows:
            view = views[one["rank"]]
            if "nccl" not in view.backend:
                continue
            choice = device_choice(one["pid"])
            uuid = card_of_rank(row["cards"], choice, view.identity.local_rank, self._cards.owner_of_slice)
            if uuid is not None:
                one["cards"] = [uuid]


def _own_pids(places: KernelPaths) -> dict[str, Any]:
    """Where this is a container: its processes have other numbers in the kernel's log."""
    with suppress(OSError):
        if (places.proc / "self/ns/pid").stat().st_ino == FIRST_NAMESPACE:
            return {}
    return {"own_pids": True}


def _used_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> int:
    """Sample until the watcher is gone, or asks us to end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    with suppress(OSError):
        os.nice(NICE)
    folder, records, watcher = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    try:
        sampler = MachineSampler(folder, records, RunFolder(folder, records).read_plan())
        pause_s = FIRST_S
        if end_with_parent(watcher, signal.SIGTERM):
            sampler.sample()
        while os.getppid() == watcher:
            told = signal.sigtimedwait({signal.SIGTERM, signal.SIGUSR1}, pause_s)
            if told is not None and told.si_signo == signal.SIGTERM:
                break
            sampler.sample(whole_look=told is not None)
            pause_s = EVERY_S
        sampler.nccl_lines.keep()
    except Exception:  # noqa: BLE001 - the process edge
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)  # a thread may still wait for a file system that does not answer


if __name__ == "__main__":
    main()
