"""``settings.json`` in the run folder: with what a run was started, so that the next one can be compared with it.

Gathered in a short-lived child of the watcher, once when the command starts (before anybody edits a file) and once more
when the ranks are there: their own environment, and the packages of the Python they run with. Nothing is imported that
belongs to the job, and secrets are removed before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from unhang import __version__
from unhang.knowledge.job.environment_variables import is_relevant, varies_by_start
from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRanks
from unhang.watch.launch.job_environment import RECORDS_VARIABLE, RUN_FOLDER_VARIABLE, STARTUP_FOLDER
from unhang.watch.process_state.proc_processes import PROC, read_environment, text_of
from unhang.watch.run_folder import RunFolder
from unhang.watch.side_process import ForkedChild
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.run_settings import GpuDescription, NodeDescription, RunSettings, SettingsFile
from unhang.wire.process_registration import host_name

SETTINGS_FILE = "settings.json"
LIMIT_S = 40.0
LAST_WAIT_S = 0.5
"""Of a watcher that leaves."""
MEMORY = 2 << 30
MAX_NAMES, MAX_KEYS, MAX_TEXT = 400, 400, 400
MAX_PROGRAM_BYTES = 4 << 20
_ASKED = ("environment", "versions", "driver", "devices", "configuration")
_PACKAGES = re.compile(
    r"(torch|torchvision|torchdata|torchtitan|triton|numpy|transformers|accelerate|deepspeed|trl|peft|datasets|tokenizers"
    r"|safetensors|lightning|pytorch_lightning|webdataset|vllm|flash_attn|xformers|bitsandbytes|apex|transformer_engine"
    r"|megatron_core|tensorboard|wandb|pyarrow|fsspec|nvidia_nccl_cu\d+|nvidia_cudnn_cu\d+|nvidia_cuda_runtime(?:_cu\d+)?"
    r"|nvidia_nvshmem_cu\d+|rccl|intel_extension_for_pytorch)-([^-]+)\.dist-info",
    re.IGNORECASE,
)
_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)
_SITE = re.compile(r"(/\S*/(?:site|dist)-packages)/torch/")


@dataclass(slots=True)
class SettingsCollector:
    """One gathering at a time; its end is never waited for."""

    folder: RunFolder
    plan: RunPlan
    child: ForkedChild | None = None
    with_ranks: bool = False
    tried: bool = False

    def tick(self, members: JobRanks) -> None:
        """Start what is due."""
        ranks = {rank: member.pid for rank, member in members.by_rank.items() if member.ended_ns is None}
        if self.child is not None:
            if self.child.over():
                self.child = None
        elif not self.tried:
            self.tried = True
            self._start({}, None)
        elif ranks and not self.with_ranks:
            self.with_ranks = True
            self._start(ranks, members.world_size)

    def end(self) -> None:
        """The watcher leaves."""
        if self.child is not None:
            self.child.wait(LAST_WAIT_S)
            self.child = None

    def _start(self, ranks: Mapping[int, int], world_size: int | None) -> None:
        with suppress(OSError):
            self.child = ForkedChild(lambda: self._work(ranks, world_size), limit_s=LIMIT_S, memory=MEMORY)

    def _work(self, ranks: Mapping[int, int], world_size: int | None) -> None:
        with suppress(OSError):
            os.nice(10)
        with suppress(OSError):
            of = ranks[min(ranks)] if ranks else self.plan.job_pid
            os.chdir((PROC / str(of) / "cwd").readlink())  # its files are named from there
        settings = collect_settings(self.plan, ranks, world_size)
        private_files.write_atomically(self.folder.path / SETTINGS_FILE, settings.json())


def collect_settings(plan: RunPlan, ranks: Mapping[int, int], world_size: int | None) -> RunSettings:
    """Everything worth comparing, without secrets."""
    from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
    from unhang.check.devices.devices import Cards, NvidiaDriver
    from unhang.check.environment.environment import Versions
    from unhang.host.machine import Machine
    from unhang.program.launch.job_environment import JobEnvironment
    from unhang.program.launch.launch import Configuration, FollowedLaunch, Launch
    from unhang.program.launch.planned_job import PlannedJob
    from unhang.program.settings import configuration_files as configuration_check
    from unhang.secrets import words_without_secrets

    first = ranks[min(ranks)] if ranks else None
    environment = _environment_of(first if first is not None else plan.job_pid) or dict(os.environ)
    machine = Machine(environment=environment)
    checks = [check for check in ALL_INSPECTIONS if check.name in _ASKED]
    asked = PlannedJob(
        tuple(plan.command), followed=FollowedLaunch() if first is not None else None
    )  # a rank shows what is in force
    here, gaps = inspect_node(machine, asked, checks)
    settings, versions, cards = here.found(JobEnvironment), here.found(Versions), here.found(Cards)
    driver, configuration, launch = here.found(NvidiaDriver), here.found(Configuration), here.found(Launch)
    if first is not None and not (launch and _is_python(launch.program)):  # a script of the user's starts the program
        words = tuple(text_of(PROC / str(first) / "cmdline").split("\0")[:-1])
        found = dict(configuration_check.collect(machine, PlannedJob(words)))
        configuration, launch = found[Configuration].found, found[Launch].found
    set_here = {name: setting.value for name, setting in settings.in_force.items()} if settings else environment
    return RunSettings(
        unhang=__version__,
        written_s=round(time.time(), 1),
        command=tuple(word[:MAX_TEXT] for word in words_without_secrets(plan.command)[:MAX_NAMES]),
        folder=str(Path.cwd()),
        world_size=world_size if world_size is not None else (launch.world_size if launch else None),
        nodes=(_node(),),
        versions={**_versions(versions.of if versions else {}, first), **_driver(driver)},
        environment=dict(sorted(_environment(set_here))[:MAX_NAMES]),
        cards=tuple(msgspec.convert(asdict(card), GpuDescription) for card in cards.cards[:64]) if cards else (),
        files=tuple(_file(one.path, one.kind, one.tree) for one in (configuration.files if configuration else ())),
        program=_program(launch.program if launch else ""),
        not_looked=tuple(f"{gap.what}: {gap.because}" for gap in gaps),
    )


def _is_python(program: str) -> bool:
    return program.endswith(".py") or program.startswith("-m ")


def _environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; empty where it is gone or may not be read."""
    found = read_environment(pid) or {}
    own = [part for part in found.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(STARTUP_FOLDER)]
    return {**found, "PYTHONPATH": os.pathsep.join(own)} if found else {}


def _environment(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if (
            value
            and name not in (RECORDS_VARIABLE, RUN_FOLDER_VARIABLE)
            and is_relevant(name)
            and not varies_by_start(name)
        ):
            yield name, _plain(name, value)


def _plain(name: str, value: str) -> str:
    """``value`` without secrets, also where only its name tells that it is one."""
    from unhang.secrets import value_without_secrets

    return value_without_secrets(name, value)[:MAX_TEXT]


def _node() -> NodeDescription:
    usable = memory = None
    with suppress(OSError, ValueError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        usable = len(os.sched_getaffinity(0))
    return NodeDescription(host_name(), platform.release(), os.cpu_count(), usable, memory)


def _versions(installed: Mapping[str, str], rank: int | None) -> dict[str, str]:
    """Of the packages beside the torch that a rank has loaded; those beside us where no rank is there yet."""
    site = _site_of(rank) if rank is not None else None
    if site is None:
        return {**dict(installed), "python": platform.python_version()}
    found = {}
    with suppress(OSError):
        for name in os.listdir(site):  # noqa: PTH208 - thousands of names, no paths wanted
            match = _PACKAGES.fullmatch(name)
            if match:
                found[match[1].lower().replace("_", "-")] = match[2]
    cuda = _CUDA.search(text_of(site / "torch" / "version.py"))
    if cuda:
        found["cuda"] = cuda[1]
    nccl = [version for name, version in found.items() if name.startswith("nvidia-nccl")]
    if nccl:
        found["nccl"] = nccl[0]
    python = re.search(r"/python(3\.\d+)", str(site))
    return {**found, **({"python": python[1]} if python else {})}


def _site_of(pid: int) -> Path | None:
    found = _SITE.search(text_of(PROC / str(pid) / "maps"))
    return Path(found[1]) if found else None


def _driver(driver: Any) -> dict[str, str]:
    return {"nvidia-driver": driver.module} if driver is not None and driver.module else {}


def _file(path: str, kind: str, tree: Mapping[str, Any]) -> SettingsFile:
    return SettingsFile(path, kind, _hash(Path(path)), dict(sorted(_keys(tree, ""))[:MAX_KEYS]))


def _keys(tree: Any, above: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Dotted names and values of a configuration."""
    if isinstance(tree, Mapping) and depth < 12:
        for key, value in tree.items():
            yield from _keys(value, f"{above}.{key}" if above else str(key), depth + 1)
        return
    text = tree if isinstance(tree, str) else json.dumps(tree, default=str)
    yield above[:MAX_TEXT], _plain(above.rpartition(".")[2], text)


def _program(path: str) -> dict[str, str]:
    """The program's hash, and the commit of the repository it lies in."""
    if not path or not Path(path).is_file():
        return {}
    found = {"path": path, "sha256": _hash(Path(path))}
    for folder in list(Path(path).absolute().parents)[:6]:
        commit = _commit(folder / ".git")
        if commit:
            return {**found, "commit": commit}
    return found


def _commit(git: Path) -> str:
    """What HEAD points to, read without git."""
    head = text_of(git / "HEAD").strip()
    if not head.startswith("ref: "):
        return head[:40]
    name = head[5:]
    packed = (line.split()[0] for line in text_of(git / "packed-refs").splitlines() if line.endswith(f" {name}"))
    return text_of(git / name).strip()[:40] or next(packed, "")[:40]


def _hash(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return hashlib.sha256(file.read(MAX_PROGRAM_BYTES)).hexdigest()
    return ""
