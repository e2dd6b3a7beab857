"""Risks in the storage a job uses: room, rights, what it lies on, and how fast that answers."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from typing import Any

from unhang.check.devices.memory_need import checkpoint_bytes
from unhang.check.environment.environment import Timers
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.check.storage.storage import JobPath, Storage, StorageMeasurement
from unhang.findings import Cause, Evidence, Phase, Remedy, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.job_paths import file_system_row, names_of_paths
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.program.settings.job_values import feature, job_value, job_values

ROWS = RiskRows("storage")
NOTHING = whole_threshold("storage.nothing")
LITTLE = whole_threshold("storage.little")
MIN_FILES = whole_threshold("storage.min_files")
APPEND_NOTED_S = threshold("storage.append_noted_s")
APPEND_SLOW_S = threshold("storage.append_slow_s")
ENOUGH_MEMORY = whole_threshold("storage.enough_memory")
FILE_NOTED_S = threshold("storage.file_noted_s")
FILE_SLOW_S = threshold("storage.file_slow_s")
SAMPLES_PER_S = whole_threshold("storage.samples_per_s")
USUAL_WORKERS = whole_threshold("storage.usual_workers")
WEIGHTS = whole_threshold("storage.weights")
LIMIT_SHARE = threshold("storage.limit_share")
DEFAULT_LIMIT_S = 600.0
STEP_S = 1.0
MANY_FILES = 1000
OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "oss", "cos", "obs", "abfs", "abfss", "az", "wasbs", "hf")
_LOG_BASES = ("job.dump_folder", "dump_folder")
"""Folders that hold the log where a switch says that one is written."""
_LOG_SWITCHES = ("metrics.enable_tensorboard", "enable_tensorboard")
_SAVED_TO = ("checkpoints", "named", "current")
_USES = {"current": "files", "named": "files"}
_UNFIT = {"shared": ("logs",), "memory": ("checkpoints",), "container": ("checkpoints", "dumps")}


def log_on_object_store(here: NodeInspection) -> Iterator[Answer]:
    """TensorBoard keeps the whole log and uploads it again at each flush: the rank that logs is late, ever more so."""
    logs = tuple(name for name, _ in names_of_paths("argument", "logs"))
    switch = job_value(here, *_LOG_SWITCHES)
    names = (*logs, *_LOG_BASES) if switch is not None and switch.truth else logs
    for value in job_values(here, *names):
        scheme, there, _ = str(value.value).partition("://")
        if there and scheme.lower() in OBJECT_STORES:
            values = {"name": value.name, "address": value.value}
            yield ROWS.risk("log-on-object-store", values, phase=Phase.LOG, evidence=(value.evidence,))


def storage_answers(here: NodeInspection) -> Iterator[Answer]:
    """A rank that touches a dead mount stops inside the system call, where not even ``kill -9`` reaches it."""
    result = here.result(Storage)
    yield from ROWS.gap("storage-answers", result)
    if result.found is None:
        return
    storage = result.found
    for place in storage.places:
        if place.hung:
            yield _silent(place.path, place.type, read=place.use == "data")
    for measured in storage.measured:
        if measured.hung:
            kind = next((place.type for place in storage.places_on(measured)), "")
            yield _silent(measured.folder, kind, read=measured.step == "reads")
    for folder in storage.left:
        how = f"unhang check --only storage --path {folder}"
        yield ROWS.could_not("storage-speed", ROWS.words("no-time-left"), how, folder=folder)


def _silent(folder: str, kind: str, *, read: bool) -> Answer:
    cause = Cause.SLOW_DATA_LOADING if read else Cause.SINGLE_RANK_WORK
    return ROWS.risk("storage-silent", {"folder": folder, "kind": kind or "?"}, cause=cause)


def storage_writable(here: NodeInspection) -> Iterator[Answer]:
    """Every place that cannot be used; and what was done to find out."""
    storage = here.found(Storage)
    if storage is None:
        return
    for place in storage.places:
        if not place.hung:
            yield from _unusable(storage, place)
    if storage.bytes_written:
        folders = dict.fromkeys(one.folder for one in storage.measured if one.bytes and one.step != "reads")
        yield ROWS.fine("storage-writable", written=rounded(storage.bytes_written / 1e6), folders=", ".join(folders))


def _unusable(storage: Storage, place: JobPath) -> Iterator[Answer]:
    reason = place.trouble
    if place.use == "data" and not place.exists:
        row = "data-missing"
    elif place.use == "dumps" and place.evidence is not None and not place.exists and not reason:
        row = "dump-folder-missing"
    elif not reason and place.written and not place.writable:
        row = "not-writable"
    elif reason := reason or _refusal(storage, place):
        row = "refused-data" if place.use == "data" else "refused"
    else:
        return
    yield ROWS.risk(
        row,
        {"path": place.path, "reason": reason},
        cause=Cause.UNKNOWN if place.use == "dumps" else Cause.RANK_CRASHED,
        severity=Severity.NOTE if place.use in ("current", "named", "dumps") else Severity.STOPS,
        evidence=_quoted(place),
    )


def _refusal(storage: Storage, place: JobPath) -> str:
    """What the system said of a step that speaks for ``place``; that it is full is told by its free space."""
    for one in storage.measured:
        if one.trouble not in ("", os.strerror(errno.ENOSPC)) and not one.hung and place in storage.places_on(one):
            return one.trouble
    return ""


def disk_space(here: NodeInspection) -> Iterator[Answer]:
    """Rank 0 fails in the middle of a save while the others wait; once a file system and use."""
    storage = here.found(Storage)
    seen: set[tuple[str, str]] = set()
    for place in storage.places if storage is not None else ():
        key = (place.device, place.use)
        if place.written and place.writable and place.size and key not in seen:
            seen.add(key)
            yield _room(here, place)


def _room(here: NodeInspection, place: JobPath) -> Answer:
    values = {"path": place.path, "free": rounded(place.free / 1e9), "use": _USES.get(place.use, place.use)}
    parts: dict[str, Any] = {"evidence": _quoted(place), "remedies": _more_room(here, place, values)}
    if place.free < NOTHING or (place.files_free is not None and place.files_free < MIN_FILES):
        files = "?" if place.files_free is None else place.files_free
        return ROWS.risk("disk-full", {**values, "free": place.free >> 20, "files": files}, **parts)
    if place.free < LITTLE and place.use != "dumps":
        severity = Severity.SLOWS if place.use == "checkpoints" else Severity.NOTE
        return ROWS.risk("little-room", values, severity=severity, **parts)
    needed = checkpoint_bytes(here) if place.use == "checkpoints" else None
    if needed is not None and place.free < needed[0]:
        values |= {"low": rounded(needed[0] / 1e9), "high": rounded(needed[1] / 1e9)}
        return ROWS.risk("no-room-for-a-checkpoint", values, **parts)
    return ROWS.fine("disk-space", **values)


def _more_room(here: NodeInspection, place: JobPath, values: dict[str, Any]) -> tuple[Remedy, ...]:
    """Of checkpoints nothing that the job does already; adapters have little optimizer state."""
    remedies = [ROWS.remedy("free-space", values)]
    saves = place.use == "checkpoints"
    if saves and place.free < LITTLE and job_value(here, "save_total_limit") is None:
        remedies.append(ROWS.remedy("keep-few-checkpoints"))
    if saves and not feature(here, "adapter") and not feature(here, "weights_only"):
        remedies.append(ROWS.remedy("save-weights-only"))
    return tuple(remedies)


def storage_kind(here: NodeInspection) -> Iterator[Answer]:
    """A shared file system stalls when others use it; memory and a container's layer are gone at the next start."""
    storage = here.found(Storage)
    for place in storage.places if storage is not None else ():
        lies_on = file_system_row(place.type)
        if lies_on is None:
            continue
        values = {
            "path": place.path,
            "use": place.use,
            "name": lies_on.name,
            "kind": place.type,
            "effect": lies_on.effect,
        }
        if place.use not in _UNFIT[lies_on.kind]:
            yield ROWS.fine("storage-kind", **values)
            continue
        severity = Severity.SLOWS if lies_on.rewrites else Severity.NOTE
        name = "logs-on-shared-storage" if lies_on.kind == "shared" else "storage-does-not-last"
        yield ROWS.risk(name, values, severity=severity, evidence=_quoted(place))


def storage_appends(here: NodeInspection) -> Iterator[Answer]:
    """A metrics log waits until its line is on the disk, and the other ranks wait in the next collective meanwhile."""
    storage = here.found(Storage) or Storage()
    for measured in storage.of("appends"):
        values = {**_speed(measured, APPEND_NOTED_S), "step": STEP_S, "memory": storage.memory_free >> 30}
        if measured.typical_s <= APPEND_NOTED_S:
            yield ROWS.fine("storage-appends", **values)
            continue
        values["kind"] = next((place.type for place in storage.places_on(measured) if place.type), "?")
        values["worst"] = rounded(max(measured.seconds) * 1e3)
        in_memory = (ROWS.remedy("log-to-memory", values),) if storage.memory_free >= ENOUGH_MEMORY else ()
        yield ROWS.risk(
            "slow-appends",
            values,
            severity=Severity.SLOWS if measured.typical_s > APPEND_SLOW_S else Severity.NOTE,
            evidence=_users(storage, measured),
            remedies=(*in_memory, ROWS.remedy("write-less-often")),
        )


def storage_files(here: NodeInspection) -> Iterator[Answer]:
    """Shards, locks and caches are many small files, which one rank makes while the others wait."""
    storage = here.found(Storage) or Storage()
    for measured in storage.of("files"):
        values = _speed(measured, FILE_NOTED_S)
        if measured.typical_s <= FILE_NOTED_S:
            yield ROWS.fine("storage-files", **values)
            continue
        yield ROWS.risk(
            "slow-files",
            {**values, "many": MANY_FILES, "seconds": round(MANY_FILES * measured.typical_s)},
            severity=Severity.SLOWS if measured.typical_s > FILE_SLOW_S else Severity.NOTE,
            evidence=_users(storage, measured),
        )


def storage_reads(here: NodeInspection) -> Iterator[Answer]:
    """Samples that are read at random arrive later than the ranks take them."""
    storage = here.found(Storage) or Storage()
    for measured in storage.of("reads"):
        values = _speed(measured, 1 / SAMPLES_PER_S)
        workers = math.ceil(measured.typical_s * SAMPLES_PER_S)
        if workers <= 1:
            yield ROWS.fine("storage-reads", **values)
            continue
        yield ROWS.risk(
            "slow-reads",
            {**values, "workers": workers, "count": SAMPLES_PER_S},
            severity=Severity.SLOWS if workers > USUAL_WORKERS else Severity.NOTE,
            evidence=_users(storage, measured),
        )


def storage_checkpoint(here: NodeInspection) -> Iterator[Answer]:
    """Rank 0 writes the weights alone; where that takes longer than the shortest limit, the watchdog ends the save.

    Where the model is not known, a large one is assumed; where it would not fit, the question is open.
    """
    storage, limit_s = here.found(Storage) or Storage(), _limit_s(here)
    known = checkpoint_bytes(here, states=False)
    weights = WEIGHTS if known is None else known[1]
    for measured in storage.of("write"):
        rate = measured.bytes_per_s
        if rate is None or not any(place.use in _SAVED_TO for place in storage.places_on(measured)):
            continue
        values = {"folder": measured.folder, "rate": rounded(rate / 1e6), "limit": rounded(limit_s)}
        values["fits"] = rounded(rate * limit_s / 1e9)
        if weights / rate <= LIMIT_SHARE * limit_s:
            yield ROWS.fine("storage-checkpoint", **values)
        else:
            values["size"] = rounded(weights / 1e9)
            because = ROWS.words("size-unknown" if known is None else "size-estimated", **values)
            yield ROWS.could_not("storage-checkpoint", because, **values)


def _limit_s(here: NodeInspection) -> float:
    limits = (here.found(Timers) or Timers()).of("collective", "later steps", "first steps")
    return limits[0].seconds if limits else DEFAULT_LIMIT_S


def _speed(measured: StorageMeasurement, need_s: float) -> dict[str, Any]:
    return {"folder": measured.folder, "ms": rounded(measured.typical_s * 1e3), "need": rounded(need_s * 1e3)}


def _quoted(place: JobPath) -> tuple[Evidence, ...]:
    return (place.evidence,) if place.evidence is not None else ()


def _users(storage: Storage, measured: StorageMeasurement) -> tuple[Evidence, ...]:
    """Where the paths that a measurement speaks for were named."""
    return tuple(place.evidence for place in storage.places_on(measured) if place.evidence is not None)[:3]


def rounded(number: float) -> int | float:
    """Whole from a hundred on and where nothing is lost, one decimal from one on, two below."""
    short = round(number, 0 if number >= 100 else 1 if number >= 1 else 2)
    return int(short) if short == int(short) else short


RISKS = (
    *asked_of_a_node("configuration", log_on_object_store),
    *asked_of_a_node(
        "storage",
        storage_answers,
        storage_writable,
        disk_space,
        storage_appends,
        storage_checkpoint,
        storage_files,
        storage_reads,
        storage_kind,
    ),
)
