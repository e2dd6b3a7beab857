"""An nvcc of another CUDA than torch's: harmless, unless something of the launch is compiled with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.check.told_machine import Told
from unhang.check.devices.collect_driver import collect
from unhang.check.devices.devices import CudaCompiler, TorchCudaBuild
from unhang.check.environment.environment import AskedPackage, Requirements
from unhang.check.judge import judge
from unhang.evidence.items import SourceFile
from unhang.findings import Severity, Source, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import CommandOutput
from unhang.program.launch.launch import ConfigFile, Configuration
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProgramSource

NVCC = "Cuda compilation tools, release 9.1, V9.1.85\n"
FLASH = AskedPackage("flash-attn", "flash-attn>=2", "requirements.txt:4", compiled=True)


def said(nvcc: str, *facts: Any) -> Verdict:
    known = (CudaCompiler("nvcc", nvcc), TorchCudaBuild("12.8", "torch 2.8.0+cu128"), *facts)
    return judge([NodeInspection("h", results={type(one): InspectionResult(one) for one in known})], ["driver"])


def of_deepspeed(**tree: Any) -> Configuration:
    return Configuration((ConfigFile("ds.json", "deepspeed", tree),))


def of_program(text: str) -> ProgramSource:
    return ProgramSource(whole=(SourceFile(Source("ops.py"), "ops.py", text),))


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (
            of_deepspeed(zero_optimization={"offload_optimizer": {"device": "cpu"}}),
            "the optimizer that ds.json asks for",
        ),
        (of_deepspeed(optimizer={"type": "AdamW"}), "the optimizer that ds.json asks for"),
        (of_program("from torch.utils.cpp_extension import load\n"), "an extension of its own: ops.py"),
        (Requirements("/v/bin/python", 4, (FLASH,)), "flash-attn, which requirements.txt:4 asks for"),
    ],
)
def test_what_would_be_compiled_is_worth_a_note(fact: Any, why: str) -> None:
    (note,) = said("9.1", fact).findings

    assert (note.severity, note.subject) == (Severity.NOTE, "nvcc")
    assert "nvcc is of CUDA 9.1, torch was built for CUDA 12.8" in str(note.summary)
    assert why in str(note.because[0])
    assert said("12.4", fact).findings == ()


@pytest.mark.parametrize(
    ("facts", "harmless"),
    [
        ((), "harmless unless extensions are compiled here"),
        ((Requirements("/v/bin/python", 4),), "nothing found in this launch compiles any"),
        (
            (Requirements("", 0), of_deepspeed(zero_optimization={"stage": 2})),
            "nothing found in this launch compiles any",
        ),
    ],
)
def test_where_nothing_is_compiled_it_is_harmless(facts: tuple[Any, ...], harmless: str) -> None:
    verdict = said("9.1", *facts)

    assert verdict.findings == ()
    (fine,) = (str(line.what) for line in verdict.checked)
    assert harmless in fine
    assert "9.1" in fine
    assert "12.8" in fine


@pytest.mark.parametrize(
    ("variables", "path"), [({}, "nvcc"), ({"CUDA_HOME": "/usr/local/cuda-9.1"}, "/usr/local/cuda-9.1/bin/nvcc")]
)
def test_it_is_found_where_torch_looks_for_it(variables: dict[str, str], path: str, tmp_path: Path) -> None:
    machine = Told(tmp_path, {f"{path} --version": CommandOutput(NVCC, 0)}, **variables)

    found = dict(collect(machine, PlannedJob()))

    assert found[CudaCompiler].found == CudaCompiler(path, "9.1")
    assert dict(collect(Told(tmp_path, {}), PlannedJob()))[CudaCompiler] == InspectionResult()
