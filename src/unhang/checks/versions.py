"""Versions of what the job would run with: torch, the NCCL it ships, and the libraries around it.

Packages are asked for by their metadata; nothing is imported. Versions the user assumes count before installed ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.facts.preflight.situation import Look
from unhang.facts.preflight.versions import Versions
from unhang.findings import say
from unhang.knowledge.versions import known_of

NAME = "versions"
LIMIT_S = 10.0
PACKAGES = ("torch", "transformers", "accelerate", "deepspeed", "trl", "datasets", "lightning", "webdataset", "vllm")
NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


def look(machine: Machine, plan: Plan) -> Iterator[tuple[type, Look[Any]]]:
    """Every version that can be known."""
    found: dict[str, str] = {}
    origin: dict[str, str] = {}
    for package in PACKAGES:
        version = machine.installed(package)
        if version:
            found[package] = version
    _assume(plan, found, origin)
    _nccl_of(machine, found, origin)
    because = None if "torch" in found else say("torch is not installed beside unhang")
    yield Versions, Look(Versions(found, origin), because, "" if because is None else "unhang check --assume torch=2.8")


def _assume(plan: Plan, found: dict[str, str], origin: dict[str, str]) -> None:
    for package, version in plan.assume.items():
        if found.get(package) != version:
            found[package], origin[package] = version, "assumed"


def _nccl_of(machine: Machine, found: dict[str, str], origin: dict[str, str]) -> None:
    """The NCCL of an installed wheel, unless torch itself is only assumed: then the one that release ships."""
    if "nccl" in found or found.get("torch", "").endswith("+cpu"):
        return
    if "torch" not in origin:
        version = next((v for wheel in NCCL_WHEELS if (v := machine.installed(wheel))), "")
        if version:
            found["nccl"] = version
            return
    for row in known_of("torch", found.get("torch", ""), kinds=("fact",)):
        if row.nccl:
            found["nccl"], origin["nccl"] = row.nccl, f"ships with torch {found['torch']}"
