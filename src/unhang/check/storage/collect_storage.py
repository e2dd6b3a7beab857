"""The folders the job would use: what they lie on, what is free, and how fast small steps on them come back.

It writes, and takes all of it away again (``storage_trial.py``): at most 256 MB in all, within about ten seconds. Every
step is a process of its own with a limit, so that a mount that does not answer costs its limit and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from unhang.check.storage import storage_trial
from unhang.check.storage.storage import JobPath, Storage, StorageMeasurement
from unhang.check.storage.storage_paths import find_job_paths
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import say

NAME = "storage"
LIMIT_S = 30.0
NEEDS = ("environment", "versions", "configuration", "timers", "program")
ALL_STEPS_S = 10.0
INSPECT_S, STEP_S = 4.0, 5.0
MAX_BYTES, MAX_BYTES_ONCE, MAX_SHARE = 256 << 20, 64 << 20, 0.05
_TRIAL = Path(storage_trial.__file__)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Inspect each place, then try each file system; what was found so far is given as it comes."""
    ends = time.monotonic() + ALL_STEPS_S
    mounts = _mounts(machine)
    places: list[JobPath] = []
    memory = machine.space("/dev/shm").found
    storage = Storage(memory_free=memory.free if memory is not None else 0)
    for place in find_job_paths(machine, plan):
        if time.monotonic() > ends:
            storage = replace(storage, left=(*storage.left, place.path))
            continue
        seen = _looked_at(machine, place, mounts, [one.mount for one in places if one.hung])
        if seen is not None:
            places.append(seen)
            storage = replace(storage, places=tuple(places))
            yield Storage, InspectionResult(storage)
    if not places:
        yield Storage, InspectionResult(because=say("the stored machine has no data about its folders"))
    for step, folder, device in _steps(places):
        if time.monotonic() > ends:
            storage = replace(storage, left=tuple(dict.fromkeys((*storage.left, folder))))
        else:
            measured = _measured(machine, step, folder, device, storage, places)
            storage = replace(storage, measured=(*storage.measured, *measured))
        yield Storage, InspectionResult(storage)


def _mounts(machine: Machine) -> dict[str, str]:
    """Type of file system by mount point; a later mount hides an earlier one."""
    found = {}
    for line in machine.text("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) > 4 and kinds:
            found[fields[4].replace("\\040", " ")] = kinds[0]
    return found


def _mount_of(path: str, mounts: dict[str, str]) -> str:
    return max((m for m in mounts if path == m or path.startswith(m.rstrip("/") + "/")), key=len, default="")


def _looked_at(machine: Machine, place: JobPath, mounts: dict[str, str], dead: list[str]) -> JobPath | None:
    """``place`` with what it lies on; None where nothing is stored of it."""
    mount = _mount_of(place.path, mounts)
    guessed = replace(place, mount=mount, type=mounts.get(mount, ""), folder=place.path)
    if mount and mount in dead:
        return replace(guessed, hung=True)
    answer, trouble, hung = _tried(machine, "inspect", place.path, limit_s=INSPECT_S)
    if hung or trouble:
        return replace(guessed, hung=hung, trouble=trouble)
    if not answer:
        return None
    mount = _mount_of(answer["folder"], mounts)
    return replace(place, **answer, mount=mount, type=mounts.get(mount, ""))


def _steps(places: list[JobPath]) -> Iterator[tuple[str, str, str]]:
    """Each step once a file system, in the folder of the first place it speaks for; the cheap steps first."""
    well = [place for place in places if place.device]
    for step, uses in (
        ("appends", ("logs", "checkpoints", "named", "current")),
        ("reads", ("data", "named")),
        ("write", ("checkpoints", "named", "current")),
        ("files", ("checkpoints", "logs", "named", "current")),
    ):
        tried: set[str] = set()
        for place in sorted((p for p in well if p.use in uses), key=lambda p: uses.index(p.use)):
            usable = place.exists if step == "reads" else place.writable
            if usable and place.device not in tried:
                tried.add(place.device)
                yield step, place.path if step == "reads" else place.folder, place.device


def _measured(
    machine: Machine, step: str, folder: str, device: str, storage: Storage, places: list[JobPath]
) -> tuple[StorageMeasurement, ...]:
    if any(one.hung and one.device == device for one in storage.measured):
        return ()
    words = [folder]
    if step == "write":
        free = next(place.free for place in places if place.device == device)
        most = min(MAX_BYTES_ONCE, MAX_BYTES - storage.bytes_written, int(free * MAX_SHARE))
        if most < storage_trial.CHUNK:
            return ()
        words.append(str(most))
    answer, trouble, hung = _tried(machine, step, *words, limit_s=STEP_S)
    if hung and step == "files":
        _tried(machine, "clean", folder, limit_s=1.0)
    if hung or trouble:
        return (StorageMeasurement(step, folder, device, trouble=trouble, hung=hung),)
    seconds = tuple(float(one) for one in answer.get("seconds", ()))
    return (StorageMeasurement(step, folder, device, seconds, int(answer.get("bytes", 0))),) if seconds else ()


def _tried(machine: Machine, *words: str, limit_s: float) -> tuple[dict[str, Any], str, bool]:
    """What a step answered, why it did not, and whether it was cut off at its limit."""
    started = time.monotonic()
    result = machine.program(_TRIAL, words, limit_s)
    if result.found is None:
        because = str(result.because or "")
        return {}, because, bool(because) and time.monotonic() - started >= limit_s
    try:
        answer = json.loads(result.found.text)
    except ValueError:
        return {}, result.found.text.strip().rsplit("\n", 1)[-1] or f"exit code {result.found.code}", False
    return (answer, str(answer.get("trouble", "")), False) if isinstance(answer, dict) else ({}, "", False)
