"""The NVIDIA driver and the CUDA compiler beside what torch was built for, and every NCCL a process may load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from unhang.check.devices.devices import CudaCompiler, NcclLibraries, NcclLibrary, NvidiaDriver, TorchCudaBuild
from unhang.check.environment.collect_versions import NCCL_WHEELS
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge.job.versions import rows_affecting
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import say

NAME = "driver"
LIMIT_S = 10.0
NEEDS = ("versions", "devices", "configuration")
_MODULE = re.compile(r"^NVRM version: .*?Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", re.MULTILINE)
_LOCAL = re.compile(r"\+cu(\d{2})(\d+)$")
_FILE = re.compile(r"libnccl\.so(?:\.\d+(?:\.\d+)*)?")
_CACHE = re.compile(r"libnccl\.so\S* .*=> (\S+)")
_RELEASE = re.compile(r"release (\d+\.\d+)")
RUNTIME_WHEELS = (
    "nvidia-cuda-runtime",
    "nvidia-cuda-runtime-cu13",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-runtime-cu11",
)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """The NVIDIA driver, the CUDA version torch was built for, the CUDA compiler, and the NCCL libraries."""
    release = driver_release(machine)
    yield NvidiaDriver, InspectionResult(NvidiaDriver(release, _compat(machine)) if release else None)
    yield TorchCudaBuild, _built_for(machine, plan)
    yield CudaCompiler, _compiler(machine)
    yield NcclLibraries, InspectionResult(NcclLibraries(tuple(_nccls(machine))))


def driver_release(machine: Machine) -> str:
    """The release of the kernel module that is loaded; empty where none is."""
    module = _MODULE.search(machine.text("/proc/driver/nvidia/version"))
    return module[1] if module else ""


def _built_for(machine: Machine, plan: PlannedJob) -> InspectionResult[TorchCudaBuild]:
    """Its suffix tells (``2.8.0+cu128``), else the CUDA runtime installed beside it, else what that release ships."""
    torch = plan.assume.get("torch") or machine.installed("torch")
    if not torch:
        return InspectionResult(
            because=say("torch is not installed with unhang"), how="python -c 'import torch; print(torch.version.cuda)'"
        )
    if "+" in torch and not torch.partition("+")[2].startswith("cu"):
        return InspectionResult(TorchCudaBuild("", f"torch {torch}") if torch.endswith("+cpu") else None)
    suffix = _LOCAL.search(torch)
    if suffix is not None:
        return InspectionResult(TorchCudaBuild(f"{suffix[1]}.{suffix[2]}", f"torch {torch}"))
    for wheel in RUNTIME_WHEELS if "torch" not in plan.assume else ():
        version = machine.installed(wheel)
        if version:
            return InspectionResult(TorchCudaBuild(".".join(version.split(".")[:2]), f"{wheel} {version}"))
    row = next((row for row in rows_affecting("torch", torch, kinds=("fact",)) if row.cuda), None)
    return InspectionResult(TorchCudaBuild(row.cuda, f"torch {torch} of PyPI") if row is not None else None)


def _compiler(machine: Machine) -> InspectionResult[CudaCompiler]:
    """Where torch looks for it (``cpp_extension``): in CUDA_HOME, else on PATH, else in the usual place."""
    home = machine.environment.get("CUDA_HOME") or machine.environment.get("CUDA_PATH")
    for path in (f"{home}/bin/nvcc",) if home else ("nvcc", "/usr/local/cuda/bin/nvcc"):
        answer = machine.command((path, "--version"))
        release = _RELEASE.search(answer.found.text) if answer.found is not None else None
        if release is not None or answer.because is not None:
            found = None if release is None else CudaCompiler(path, release[1])
            return InspectionResult(found, answer.because, answer.how)
    return InspectionResult()


def _compat(machine: Machine) -> str:
    """A folder of LD_LIBRARY_PATH that holds CUDA's forward-compatibility library."""
    for folder in _folders(machine):
        if "compat" in folder and any(name.startswith("libcuda.so") for name in machine.entries(folder).found or ()):
            return folder
    return ""


def _nccls(machine: Machine) -> Iterator[NcclLibrary]:
    for wheel in NCCL_WHEELS:
        version = machine.installed(wheel)
        if version:
            yield NcclLibrary(wheel, "wheel", version)
    for path in re.split(r"[:\s]+", machine.environment.get("LD_PRELOAD", "")):
        if _FILE.fullmatch(PurePosixPath(path).name):
            yield _library(machine, path, "LD_PRELOAD")
    for folder in _folders(machine):
        name = next((name for name in machine.entries(folder).found or () if _FILE.fullmatch(name)), None)
        if name is not None:
            yield _library(machine, f"{folder}/{name}", "LD_LIBRARY_PATH")
    cache = machine.command(("ldconfig", "-p"))
    listed = _CACHE.findall(cache.found.text) if cache.found is not None else []
    for path in dict.fromkeys(listed[:4]):
        yield _library(machine, path, "ldconfig")


def _library(machine: Machine, path: str, where: str) -> NcclLibrary:
    """The version of the file beside it that has the longest name (``libnccl.so.2`` links to ``libnccl.so.2.18.5``)."""
    folder = str(PurePosixPath(path).parent)
    names = [PurePosixPath(path).name, *(machine.entries(folder).found or ())]
    versions = [name.partition(".so.")[2] for name in names if _FILE.fullmatch(name)]
    longest = max(versions, key=lambda version: version.count("."), default="")
    return NcclLibrary(path, where, longest if "." in longest else "")


def _folders(machine: Machine) -> list[str]:
    text = machine.environment.get("LD_LIBRARY_PATH", "")
    return list(dict.fromkeys(folder.rstrip("/") for folder in text.split(":") if folder.startswith("/")))
