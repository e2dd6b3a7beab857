"""What ``unhang check`` says before the start: limits of the machine, storage, settings of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.check.told_machine import card, situation
from tests.knowledge.boundaries.boundary import turns
from unhang.check.environment.environment import MemoryLimit, ProcessLimits, RdmaDevices, SharedMemory, Timer, Timers
from unhang.check.risks.devices import device_crowded
from unhang.check.risks.limits import locked_memory, memory_limit, open_files, shared_memory
from unhang.check.risks.program.configuration import full_state_dict, generation_time
from unhang.check.risks.risk import Answer
from unhang.check.risks.storage import disk_space, storage_appends, storage_checkpoint, storage_files, storage_reads
from unhang.check.risks.timers import limit_far_away, time_for_the_steps
from unhang.check.storage.storage import JobPath, Storage, StorageMeasurement
from unhang.findings import Evidence, Finding, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import ConfigFile, Configuration

GB = 1 << 30


def said(ask: Callable[[NodeInspection], Iterator[Answer]], *facts: object) -> object:
    """The kind of each answer: how bad, how sure, how many remedies; nothing of its numbers."""
    return [_kind(answer) for answer in ask(situation((), facts=facts))]


def _kind(answer: Answer) -> object:
    if isinstance(answer, Finding):
        return answer.cause, answer.severity, answer.certainty, len(answer.remedies)
    return type(answer).__name__


def place(free: int, files_free: int | None = None, use: str = "checkpoints") -> Storage:
    """A disk that the job writes to."""
    return Storage((JobPath("/out", use, exists=True, writable=True, size=1 << 50, free=free, files_free=files_free),))


@turns("storage.nothing")
def a_full_disk(free: int) -> object:
    return said(disk_space, place(free, use="dumps"))


@turns("storage.min_files")
def few_files(count: int) -> object:
    return said(disk_space, place(1 << 45, count))


@turns("storage.little")
def a_nearly_full_disk(free: int) -> object:
    return said(disk_space, place(free))


@turns("devices.full_share")
def a_taken_card(share: float) -> object:
    here = situation([card(0, used=round(share * 48 * GB))])
    return [_kind(answer) for answer in device_crowded(here)]


@turns("limits.enough_locked_memory")
def memory_that_may_be_locked(size: int) -> object:
    return said(locked_memory, ProcessLimits(size, None), RdmaDevices(("mlx5_0",)))


@turns("limits.enough_shared_memory")
def small_shared_memory(size: int) -> object:
    return said(shared_memory, SharedMemory(size))


@turns("limits.container_default", 64 << 20, (64 << 20) + 1)
def tiny_shared_memory(size: int) -> object:
    return said(shared_memory, SharedMemory(size))


@turns("limits.min_free")
def little_memory(free: int) -> object:
    return said(memory_limit, MemoryLimit(8 * GB, 8 * GB - free, ""))


@turns("limits.min_share")
def a_small_share_of_memory(share: float) -> object:
    return said(memory_limit, MemoryLimit(512 * GB, round(512 * GB * (1 - share)), ""))


@turns("limits.few_files", 1024, 1025)
def few_open_files(count: int) -> object:
    return said(open_files, ProcessLimits(None, count))


@turns("limits.very_few_files", 256, 257)
def very_few_open_files(count: int) -> object:
    return said(open_files, ProcessLimits(None, count))


def measured(step: str, seconds: float, *, size: int = 0, memory_free: int = 0) -> Storage:
    """A folder on which one operation took so long."""
    return Storage(
        (JobPath("/out", "checkpoints", folder="/out", exists=True, writable=True, device="1"),),
        (StorageMeasurement(step, "/out", "1", (seconds,), bytes=size),),
        memory_free=memory_free,
    )


@turns("storage.file_noted_s")
def a_new_file(seconds: float) -> object:
    return said(storage_files, measured("files", seconds))


@turns("storage.file_slow_s")
def a_slow_new_file(seconds: float) -> object:
    return said(storage_files, measured("files", seconds))


@turns("storage.append_noted_s")
def an_append(seconds: float) -> object:
    return said(storage_appends, measured("appends", seconds))


@turns("storage.append_slow_s")
def a_slow_append(seconds: float) -> object:
    return said(storage_appends, measured("appends", seconds))


@turns("storage.enough_memory")
def memory_to_log_to(size: int) -> object:
    return said(storage_appends, measured("appends", 1.0, memory_free=size))


@turns("storage.samples_per_s", 15.9, 16.1)
def a_random_read(a_second: float) -> object:
    return said(storage_reads, measured("reads", 1 / a_second))


@turns("storage.usual_workers", 4, 5)
def a_read_that_needs_workers(workers: int) -> object:
    return said(storage_reads, measured("reads", (workers - 0.5) / 16))


COLLECTIVE = Timers((Timer("collective", 600.0, "ddp_timeout"),))


@turns("storage.weights", 13_900_000_000, 14_100_000_000)
def what_is_written_in_half_the_limit(size: int) -> object:
    return said(storage_checkpoint, measured("write", 300.0, size=size), COLLECTIVE)


@turns("storage.limit_share")
def the_share_of_the_limit_that_writing_takes(share: float) -> object:
    return said(storage_checkpoint, measured("write", 600 * share, size=14_000_000_000), COLLECTIVE)


def configured(limit_s: float, **values: Any) -> tuple[Timers, Configuration]:
    """A job with this limit and these values in its file."""
    limit = Timer("collective", limit_s, "ddp_timeout", Evidence(Source("job.yaml"), ""))
    return Timers((limit,)), Configuration((ConfigFile("job.yaml", "transformers", values),))


@turns("configuration.long_s")
def a_whole_save_under_a_limit(seconds: float) -> object:
    return said(full_state_dict, *configured(seconds, fsdp_state_dict_type="FULL_STATE_DICT"))


@turns("timers.far_s")
def a_limit_of_a_day(seconds: float) -> object:
    return said(limit_far_away, *configured(seconds))


@turns("timers.least_step_s")
def a_scheduler_that_leaves_so_much_for_a_step(seconds: float) -> object:
    ends = Timer("scheduler", 1000 * seconds, "Slurm", Evidence(Source("job.sh"), "--time"))
    return said(time_for_the_steps, Timers((ends,)), configured(600, max_steps=1000)[1])


@turns("configuration.slow_tokens_per_s")
def an_answer(tokens_per_s: float) -> object:
    """Whose tokens must come so fast to stay below the limit."""
    return said(generation_time, *configured(1000, max_completion_length=round(1000 * tokens_per_s), num_generations=8))


@turns("configuration.slow_under_stage_3")
def an_answer_under_stage_3(tokens_per_s: float) -> object:
    timers, job = configured(1000, max_completion_length=round(1000 * tokens_per_s), num_generations=8)
    stage_3 = ConfigFile("ds.json", "deepspeed", {"zero_optimization": {"stage": 3}})
    return said(generation_time, timers, Configuration((*job.files, stage_3)))
