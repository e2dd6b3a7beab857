"""Target ``check``: damaged machines and programs, and what other nodes say, through every check and risk."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import tomli

from tests.fuzz.launches import LAUNCHES
from tests.fuzz.made_jobs import programs
from tests.fuzz.mutators import mutated, odd_message
from tests.fuzz.outputs import wrong_with, wrong_with_errors
from tests.fuzz.seeds import case_seeds, files_of
from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.check.probe_results.probe_results import PairSpeed, ProbeResult, ProbeStep, SuspectRound
from unhang.check.sameness.inspection_message import decode_inspection, encode_inspection
from unhang.check.sameness.sameness import DryRun, LoaderStart, ModelParameters, RankStart
from unhang.cli.check import print_check_verdict
from unhang.cli.options import Format
from unhang.errors import UnhangError
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import StoredMachine
from unhang.program.launch.planned_job import PlannedJob
from unhang.report.layout.terminal import clean_streams

MACHINES = Path(__file__).parents[1] / "machines"
COMMAND, SENT = "command.txt", "sent.msgpack"
"""Beside the machine: what is planned, and what another node says of itself (one that has no answer is left out)."""


@dataclass(frozen=True)
class _Planned:
    machine: Mapping[str, bytes]
    words: tuple[str, ...]


@cache
def _planned() -> tuple[_Planned, ...]:
    """Every stored machine with every command that its cases plan."""
    found = []
    for folder in sorted(path for path in MACHINES.iterdir() if path.is_dir()):
        files = files_of(folder)
        told: dict[str, Any] = tomli.loads(files.pop("expected.toml").decode())
        commands = {tuple(case.get("command", ("torchrun", "--nnodes", "2", "train.py"))) for case in told["case"]}
        found += [_Planned(files, words) for words in sorted(commands)]
    return tuple(found)


CONFIGURED: Mapping[str, tuple[str, bytes]] = {
    "deepspeed --num_gpus 6 train.py --deepspeed ds.json --output_dir o": (
        "ds.json",
        b'{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}}',
    ),
    "torchrun --nproc-per-node 6 train.py --num_generations 8 --per_device_train_batch_size 1 --deepspeed ds.json": (
        "ds.json",
        b'{"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": "auto"}',
    ),
    "accelerate launch --config_file a.yaml train.py --output_dir o --ddp_timeout 60": (
        "a.yaml",
        b"distributed_type: FSDP\neven_batches: false\nfsdp_config:\n  fsdp_state_dict_type: FULL_STATE_DICT\n",
    ),
    "torchrun --nnodes 2 --nproc-per-node 8 -m train --job.config_file c.toml": (
        "c.toml",
        b"[job]\ndump_folder = '/s3/o'\n[parallelism]\ntensor_parallel_degree = 3\n[metrics]\nenable_tensorboard = 1\n",
    ),
}
"""Commands with a configuration file, which no stored machine has."""
STORIES = Path(__file__).parents[2] / "stories"


@cache
def _programs() -> tuple[bytes, ...]:
    """Of all cases and tests, and of the stories: whole programs."""
    stories = tuple(path.read_bytes() for path in sorted(STORIES.glob("*/*.py")))
    tests = tuple(program.encode() for program in programs())
    cases = (content for seed in case_seeds() for name, content in seed.files.items() if name.endswith(".py"))
    return (*stories, *tests, *cases)


@cache
def _sent(number: int) -> bytes:
    """What the node of one stored machine tells the others."""
    import tempfile

    from tests.fuzz.seeds import write_files

    planned = _planned()[number]
    with tempfile.TemporaryDirectory(prefix="unhang-") as folder:
        write_files(planned.machine, Path(folder))
        situation, _ = inspect_node(StoredMachine(Path(folder)), PlannedJob(planned.words), ALL_INSPECTIONS)
    tried: dict[type, InspectionResult[Any]] = {
        ProbeResult: InspectionResult(_probed(number)),
        DryRun: InspectionResult(_dry_run(number)),
    }
    return encode_inspection(replace(situation, rank=number % 3 or None, results={**situation.results, **tried}))


def _probed(number: int) -> ProbeResult:
    """Eight ranks on two nodes: well, with a slow pair, stuck, with a wrong result, or with ranks that never came."""
    everyone, whole = tuple(range(8)), number % 4 == 0
    stuck = () if whole else (number % 8,)
    ended = tuple(rank for rank in everyone if rank not in stuck)
    steps = (
        ProbeStep("connect", "world", (everyone,), finished=everyone),
        ProbeStep(
            "all-reduce", "world", (everyone,), 64 << 20, 0.004 if whole else None, ended, stuck, error="timeout"
        ),
        ProbeStep("all-gather", "tensor_parallel=4", (everyone[:4], everyone[4:]), 1 << 20, 0.001, ended, wrong=stuck),
    )
    pairs = tuple(PairSpeed(pair, 1e9 if pair[0] == number % 5 else 150e9) for pair in combinations(everyone, 2))
    rounds = () if whole else (SuspectRound((everyone[:4], everyone[4:]), (everyone[:4],)),)
    nodes, link = ("a",) * 4 + ("b",) * 4, 50e9 if number % 2 else None
    told = ProbeResult(
        "nccl", nodes, steps, 30.0, pairs, rounds, planned=16, devices=("H100",) * 8, failed_once=not whole
    )
    return replace(told, missing=() if whole else (9,), place="a:29500", link=link, interface="eth0")


def _dry_run(number: int) -> DryRun:
    """Three ranks; in two of three runs one of them has another data set, other weights, or came no further."""
    ranks = []
    for rank in range(3):
        odd = rank == 1 and number % 3 > 0
        loader = LoaderStart(
            "train.py", 9, 0, 0, 90 + odd, 4, 2, "DistributedSampler", "", "Rows", 400 + odd, f"f{odd}"
        )
        parameters = ModelParameters("ddp", 2, "s", f"v{odd}", (("w", "(2, 2)", f"{odd}"), ("b", "(2,)", "0")))
        random = {"torch": {"data": f"{rank}", "step": f"{odd}"}}
        stage = "data" if odd and number % 2 else "step"
        memory = {"host": 1 << 30, "card": 70 << 30, "card_size": 80 << 30, "card_free": 1 << 30}
        start = RankStart(rank, 3, "h1", stage, 3, {"torch": f"2.{odd}"}, random, (loader,), parameters)
        ranks.append(replace(start, step_s=(0.5, 0.6), memory=memory))
    return DryRun(tuple(ranks), ("steps", "early", "limit")[number % 3], None if number % 3 else 0, last_words=("x",))


def check_input(rng: Random, number: int) -> dict[str, bytes]:
    """A machine with a program on it, damaged here and there, and what another node sends."""
    planned = _planned()[number % len(_planned())]
    files = {**planned.machine, "root/train.py": rng.choice(_programs()), COMMAND: shlex.join(planned.words).encode()}
    if rng.random() < 0.25:
        line, (name, content) = rng.choice(sorted({**CONFIGURED, **LAUNCHES}.items()))
        files |= {COMMAND: line.encode(), f"root/{name}": content}
    for name in rng.choices(sorted(set(files) - {"machine.toml"}), k=rng.choice((1, 2, 4))):
        files[name] = mutated(rng, files[name], 1).data
    if rng.random() < 0.3:
        files["machine.toml"] = mutated(rng, files["machine.toml"], 1).data
    if rng.random() < 0.5:
        other = _sent(rng.choice((number % len(_planned()), rng.randrange(len(_planned())))))
        files[SENT] = odd_message(rng, other) if rng.random() < 0.7 else other
    return files


def check(given: Mapping[str, bytes], place: Path, number: int) -> Iterator[str]:
    """What is wrong with what ``unhang check`` makes of it."""
    form, lang = ((Format.TEXT, "en"), (Format.JSON, "en"), (Format.TEXT, "zh"), (Format.JSON, "zh"))[number % 4]
    out, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), clean_streams():
            machine = StoredMachine(place / "input")
            words = _words(given.get(COMMAND, b""))
            here, gaps = inspect_node(machine, PlannedJob(words), ALL_INSPECTIONS)
            situations = [here, *_others(given)]
            verdict = judge(situations, [check.name for check in ALL_INSPECTIONS], gaps)
            print_check_verdict(verdict, form, lang, redact=number % 3 == 0)
    except UnhangError:
        return  # said why; nothing was promised of it
    yield from (f"failed: {gap.what}: {gap.because}" for gap in verdict.not_checked if _is_mistake(gap))
    yield from wrong_with("json" if form is Format.JSON else "text", out.getvalue())
    yield from wrong_with_errors(errors.getvalue())


def _words(line: bytes) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line.decode("utf-8", "replace")))
    except ValueError:
        return ()


def _others(given: Mapping[str, bytes]) -> list[NodeInspection]:
    if SENT not in given:
        return []
    try:
        return [decode_inspection(given[SENT])]
    except UnhangError:
        return []


def _is_mistake(gap: Any) -> bool:
    return bool(gap.failed)
