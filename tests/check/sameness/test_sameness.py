"""Nodes and ranks beside each other: what travels comes back as it was, every difference is named with its places."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.check.probe.gather_answers import GatheredAnswers, exchange_answers, gather_inspections
from unhang.check.probe_results.probe_results import ProbeResult
from unhang.check.sameness import inspection_message
from unhang.check.sameness.inspection_message import decode_inspection, encode_inspection
from unhang.check.sameness.sameness import DryRun, LoaderStart, ModelParameters, NodeFingerprint, RankStart
from unhang.errors import EvidenceError
from unhang.evidence.items import SourceFile
from unhang.findings import Finding, Source, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine, StoredMachine
from unhang.program.launch.job_environment import JobEnvironment, LauncherTask, VariableSetting, find_task
from unhang.program.launch.launch import ConfigFile, Configuration
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProgramSource
from unhang.sentences import Text, say

MACHINES = Path(__file__).parents[2] / "machines"
SAMENESS = [check for check in ALL_INSPECTIONS if check.name == "sameness"]


# --- what travels ---------------------------------------------------------------------------------------------------


def kinds() -> list[type]:
    return [
        kind
        for module in inspection_message.SENT_MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
        if kind
        not in (
            NodeInspection,
            InspectionResult,
            JobEnvironment,
            ProgramSource,
        )  # the last two travel in part, see below
    ]


def sample(hint: Any, depth: int = 4) -> Any:
    """A value of type ``hint`` that is not its default."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Union or type(hint).__name__ == "UnionType":
        return sample(next(part for part in parts if part is not type(None)), depth)
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return (sample(parts[0], depth - 1),) if depth else ()
        return tuple(sample(part, depth - 1) for part in parts)
    if origin is not None and issubclass(origin, Mapping):
        return {sample(parts[0], depth - 1): sample(parts[1], depth - 1)} if depth else {}
    if hint is Text:
        return say("rank {rank} in {what}", rank=3, what=say("a step"))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return list(hint)[-1]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        values = {field.name: sample(hints[field.name], depth - 1) for field in dataclasses.fields(hint)}
        return hint(**values | {"nodes": ("h",) * 8}) if hint is ProbeResult else hint(**values)
    if origin in (frozenset, set):
        return frozenset(sample(part, depth - 1) for part in parts)
    plain = {int: 7, float: 0.25, str: "größe {x}", bool: True, Any: [1, {"a": None}]}
    return plain.get(hint, "text")


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_fact_comes_back_as_it_was(kind: type) -> None:
    fact = sample(kind)
    here = NodeInspection("h1", 3, {kind: InspectionResult(fact, say("{what}: {n}", what="x", n=2), "how")})

    back = decode_inspection(encode_inspection(here))

    assert back == here
    assert back.result(kind).found == fact


@pytest.mark.parametrize("folder", sorted(p for p in MACHINES.iterdir() if p.is_dir()), ids=lambda path: path.name)
def test_what_every_check_sees_comes_back(folder: Path) -> None:
    checks = [check for check in ALL_INSPECTIONS if check.default]
    here, _ = inspect_node(StoredMachine(folder), PlannedJob(("torchrun", "train.py")), checks)

    back = decode_inspection(encode_inspection(here))

    assert {k: v for k, v in back.results.items() if k is not JobEnvironment} == {
        k: v for k, v in here.results.items() if k not in (JobEnvironment, ProgramSource)
    }


def test_neither_secrets_nor_sources_travel() -> None:
    settings = {name: VariableSetting(name, "hunter2") for name in ("AWS_SECRET", "HOME", "HF_TOKEN", "WANDB_API_KEY")}
    settings["NCCL_DEBUG"] = VariableSetting("NCCL_DEBUG", "INFO")
    source = ProgramSource((SourceFile(Source("train.py"), "train.py", "password = 'hunter2'"),))

    sent = encode_inspection(
        NodeInspection(
            "h1",
            results={
                JobEnvironment: InspectionResult(JobEnvironment(settings)),
                ProgramSource: InspectionResult(source),
            },
        )
    )

    assert b"hunter2" not in sent
    assert decode_inspection(sent).results[JobEnvironment].found == JobEnvironment(
        {"NCCL_DEBUG": settings["NCCL_DEBUG"]}
    )


def sent(kind: str, found: Any, **parts: Any) -> bytes:
    """A node's answer with one result of ``kind`` that has these fields."""
    results = {kind: {"found": found, **parts}}
    return msgspec.msgpack.encode({"node": "h", "rank": 0, "results": results})


@pytest.mark.parametrize(
    "message",
    [
        b"", b"{", b"[]", b"\x07", sent("os.system", {}), sent("NodeFingerprint", 7), b"\x91" * 100000,
        msgspec.msgpack.encode({"node": "h", "rank": {}, "results": {}}),
        msgspec.msgpack.encode({"node": "h", "rank": 0, "results": {"NodeFingerprint": {}}, "more": 1}),
        *(sent("NodeFingerprint", of) for of in (
            {"program": 7}, {"versions": {"torch": 2.13}}, {"others": 1}, {"environment": {1: "x"}},
        )),
        sent("ProbeResult", {
            "backend": "nccl", "nodes": [], "steps": [], "limit_s": 1.0,
            "pairs": [{"ranks": [0, 1], "bandwidth": "1"}],
        }),
        sent("Timers", {"timers": [{"kind": "heartbeat", "seconds": float("nan"), "name": "x"}]}),
        sent("DryRun", {"ranks": 1}),
        *(sent("DryRun", {"because": {"template": template, "values": values}}) for template, values in (
            ("{a}", {}), ("{a.__class__}", {"a": "x"}), ("{a:>99999999}", {"a": "x"}), ("{a:d}", {"a": "x"}),
            ("{", {}), (7, {}), ("x", 7), ("{a}", {"a": {"template": "{b}", "values": {}}}), ("{a}", {"a": {}}),
        )),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused_in_one_sentence(message: bytes) -> None:
    with pytest.raises(EvidenceError, match="the answer of a rank"):
        decode_inspection(message)


def test_an_answer_with_the_fields_of_its_kind_is_taken() -> None:
    because = {"template": "{a}, {b}", "values": {"a": "x", "b": {"template": "{c}", "values": {"c": [1, 2, 3]}}}}

    back = decode_inspection(sent("DryRun", {"because": because}))

    assert back.found(DryRun) == DryRun(because=say("{a}, {b}", a="x", b=say("{c}", c=(1, 2, 3))))


def test_a_number_that_is_too_large_to_be_sent_is_a_gap() -> None:
    tree = {"train_batch_size": 10**40}
    here = NodeInspection("h", 0, {Configuration: InspectionResult(Configuration((ConfigFile("ds.json", "x", tree),)))})

    back = decode_inspection(encode_inspection(here)).result(Configuration)

    assert back.found is None
    assert "too large" in str(back.because)


# --- nodes beside each other ----------------------------------------------------------------------------------------


def brings(node: str, rank: int | None = None, **parts: Any) -> NodeInspection:
    return NodeInspection(node, rank, {NodeFingerprint: InspectionResult(NodeFingerprint(**parts))})


def found(*situations: NodeInspection) -> Verdict:
    return judge(situations, ["sameness"])


def only(verdict: Verdict) -> Finding:
    (finding,) = verdict.findings
    return finding


def test_one_node_alone_has_nothing_to_compare_with() -> None:
    alone = found(brings("h1", versions={"torch": "2.8.0"}))
    of_many = found(brings("h1", versions={"torch": "2.8.0"}, others=True))

    assert (alone.findings, alone.checked, alone.not_checked) == ((), (), ())
    assert "srun" in of_many.not_checked[0].how


def test_nodes_that_are_alike_are_fine() -> None:
    parts: dict[str, Any] = {
        "versions": {"torch": "2.8.0"},
        "program": {"train.py": "ab"},
        "environment": {"NCCL_DEBUG": "INFO"},
    }

    verdict = found(*(brings(f"h{n}", n, **parts) for n in range(4)))

    assert verdict.findings == ()
    assert len(verdict.checked) == 3


@pytest.mark.parametrize(
    ("part", "usual", "odd", "subject", "severity", "cause"),
    [
        ("versions", {"torch": "2.8.0"}, {"torch": "2.7.1"}, "torch", "stops", "version-mismatch"),
        ("versions", {"nccl": "2.27.5"}, {}, "nccl", "stops", "version-mismatch"),
        ("versions", {"driver": "550.54"}, {"driver": "535.10"}, "driver", "note", "version-mismatch"),
        ("program", {"train.py": "ab"}, {"train.py": "cd"}, "train.py", "stops", "collective-mismatch"),
        ("configuration", {"ds.json": "ab"}, {}, "ds.json", "stops", "collective-mismatch"),
        ("environment", {}, {"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE", "stops", "network-config"),
        ("environment", {"MASTER_ADDR": "h1"}, {"MASTER_ADDR": "h3"}, "MASTER_ADDR", "stops", "rendezvous"),
        ("environment", {"NCCL_SOCKET_IFNAME": "a"}, {"NCCL_SOCKET_IFNAME": "b"}, "NCCL_SOCKET_IFNAME", "note", ""),
        ("environment", {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "8"}, "OMP_NUM_THREADS", "note", ""),
    ],
)  # fmt: skip
def test_the_odd_node_is_named(part: str, usual: Any, odd: Any, subject: str, severity: str, cause: str) -> None:
    nodes = [brings(f"h{n}", n, **{part: odd if n == 3 else usual}) for n in range(5)]

    finding = only(found(*nodes))

    assert (finding.subject, finding.nodes, finding.severity.value) == (subject, ("h3",), severity)
    assert finding.cause.value == (cause or finding.cause.value)
    assert "h3" in str(finding.because[0])


def test_a_rank_that_differs_from_its_own_node_is_named_with_its_number() -> None:
    ranks = [brings("h1", n, environment={"NCCL_PROTO": "LL" if n == 2 else "Simple"}) for n in range(4)]

    assert only(found(*ranks)).nodes == ("h1 rank 2",)


def test_the_check_hashes_what_the_command_leads_to(tmp_path: Path) -> None:
    def result(name: str, lr: str, env: dict[str, str]) -> NodeInspection:
        folder = tmp_path / name
        root = folder / "root"
        root.mkdir(parents=True)
        (root / "train.py").write_text("import model\n")
        (root / "model.py").write_text("layers = 2\n")
        (root / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, "lr": lr}))
        driver = root / "proc" / "driver" / "nvidia"
        driver.mkdir(parents=True)
        (driver / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n")
        lines = "\n".join(f'{key} = "{value}"' for key, value in env.items())
        (folder / "machine.toml").write_text(f'node = "{name}"\n[environment]\n{lines}\n[packages]\ntorch = "2.8.0"\n')
        plan = PlannedJob(("torchrun", "--nnodes", "2", "train.py", "--deepspeed", "ds.json"))
        return inspect_node(StoredMachine(folder), plan, SAMENESS)[0]

    one, two = (
        result("h1", "1", {"NCCL_DEBUG": "INFO", "RANK": "0"}),
        result("h2", "2", {"NCCL_DEBUG": "INFO", "RANK": "1"}),
    )
    belongings = one.found(NodeFingerprint)

    assert belongings is not None
    assert set(belongings.program) == {"train.py", "model.py"}
    assert belongings.environment == {"NCCL_DEBUG": "INFO"}
    assert belongings.versions["driver"] == "550.54.15"
    assert belongings.others
    verdict = found(one, two)
    assert [finding.subject for finding in verdict.findings] == ["ds.json"]


# --- ranks after a dry run ------------------------------------------------------------------------------------------


def start(rank: int, **parts: Any) -> RankStart:
    return RankStart(rank, 4, "h1", parts.pop("stage", "step"), **parts)


def after(*starts: RankStart, source: str = "", ended: str = "steps", **parts: Any) -> Verdict:
    results: dict[type, InspectionResult[Any]] = {DryRun: InspectionResult(DryRun(starts, ended, **parts))}
    if source:
        results[ProgramSource] = InspectionResult(ProgramSource((SourceFile(Source("train.py"), "train.py", source),)))
    return judge([NodeInspection("h1", results=results)], ["sameness"])


def loader(**parts: Any) -> LoaderStart:
    given = {"line": 9, "read": 0, "steps": 20, "length": 80, "sampler": "DistributedSampler", "fingerprint": "a"}
    return LoaderStart(**{"file": "train.py", **given, **parts})


def test_fewer_batches_on_one_rank_stop_the_job() -> None:
    ranks = [start(n, loaders=(loader(steps=17 if n == 3 else 20),)) for n in range(4)]

    finding = only(after(*ranks))

    assert (finding.cause.value, finding.ranks, finding.severity.value) == ("uneven-data", (3,), "stops")
    assert str(finding.because[0]) == "batches: 20 (rank 0-2), 17 (rank 3)"
    assert finding.where is not None
    assert (finding.where.file, finding.where.line) == ("train.py", 9)


def test_a_split_without_a_seed_is_where_it_comes_from() -> None:
    source = "import random\nbooks = list(range(9))\nrandom.shuffle(books)\n"
    random = [{"data": {"python": f"p{n}"}, "step": {"python": f"p{n}"}} for n in range(2)]
    ranks = [start(n, loaders=(loader(steps=17 + n),), random=random[n]) for n in range(2)]

    finding = only(after(*ranks, source=source))

    assert finding.where is not None
    assert finding.where.line == 3
    assert "the random state of python differs between ranks" in [str(text) for text in finding.because]


def test_the_same_split_with_equal_lengths_is_a_doubt() -> None:
    source = "import random\nbooks = list(range(9))\nrandom.shuffle(books)\n"
    ranks = [start(n, loaders=(loader(),), random={"step": {"python": f"p{n}"}}) for n in range(2)]

    finding = only(after(*ranks, source=source))

    assert (finding.subject, finding.certainty.value) == ("train.py:3", "possible")


def test_other_data_under_a_distributed_sampler() -> None:
    other_length = only(after(*(start(n, loaders=(loader(length=80 + n),)) for n in range(2))))
    other_content = only(after(*(start(n, loaders=(loader(fingerprint=f"f{n}"),)) for n in range(2))))
    own_shards = after(*(start(n, loaders=(loader(fingerprint=f"f{n}", sampler="RandomSampler"),)) for n in range(2)))

    assert other_length.severity.value == "stops"
    assert other_content.severity.value == "note"
    assert own_shards.findings == ()


def test_a_loader_without_length_is_left_open() -> None:
    verdict = after(*(start(n, loaders=(loader(steps=None, length=None),)) for n in range(2)))

    assert verdict.findings == ()
    assert any("train.py:9" in str(gap.what) for gap in verdict.not_checked)


def test_random_states_that_are_alike_are_a_note() -> None:
    alike = after(*(start(n, random={"step": {"torch": "same"}}) for n in range(2)))
    apart = after(*(start(n, random={"step": {"torch": f"{n}"}}) for n in range(2)))

    assert only(alike).severity.value == "note"
    assert apart.findings == ()


def parameters(kind: str = "ddp", shape: str = "float32[4]", value: str = "v") -> ModelParameters:
    return ModelParameters(kind, 1, shape, value, (("head.weight", shape, value),))


def test_parameters_of_another_shape_stop_the_job_and_other_values_are_a_note() -> None:
    shapes = only(after(start(0, parameters=parameters()), start(1, parameters=parameters(shape="float32[5]"))))
    values = only(after(start(0, parameters=parameters()), start(1, parameters=parameters(value="w"))))
    sharded = after(*(start(n, parameters=parameters("sharded", f"float32[{n}]")) for n in range(2)))

    assert shapes.severity.value == "stops"
    assert "head.weight float32[4] vs. head.weight float32[5]" in str(shapes.because[1])
    assert values.severity.value == "note"
    assert sharded.findings == ()
    assert any("parameters" in str(gap.what) for gap in sharded.not_checked)


def test_ranks_that_load_different_versions() -> None:
    finding = only(after(*(start(n, versions={"transformers": f"4.{50 + n}"}) for n in range(2))))

    assert (finding.subject, finding.cause.value) == ("transformers", "version-mismatch")


def test_how_a_dry_run_ended() -> None:
    failed = only(after(ended="early", code=1, last_words=("ValueError: no data",)))
    left = only(after(start(0, stage="ended"), start(1, stage="data"), ended="limit", because=say("so")))
    slow = after(start(0, stage="data"), ended="limit", because=say("it did not come"))

    assert failed.certainty.value == "certain"
    assert (left.ranks, left.cause.value) == ((0,), "uneven-data")
    assert slow.findings == ()
    assert "it did not come" in str(slow.not_checked[0].because)


# --- meeting --------------------------------------------------------------------------------------------------------


def test_who_we_are_among_the_tasks_of_a_launcher() -> None:
    assert find_task({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}) == LauncherTask(3, 8, 1)
    assert find_task({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0"}) == LauncherTask(2, 4, 0)
    assert find_task({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}) == LauncherTask(0, 2, 0)
    assert find_task({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}) is None
    assert find_task({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) is None  # a batch script
    assert find_task({}) is None


def test_tasks_meet_in_a_folder_where_others_left_their_questions(tmp_path: Path) -> None:
    (tmp_path / "unhang-asked-0123").write_text("")  # of a check that was killed
    met: dict[int, GatheredAnswers | None] = {}

    def take_part(rank: int) -> None:
        met[rank] = exchange_answers(LauncherTask(rank, 3), f"answer of {rank}".encode(), tmp_path, 10)

    threads = [threading.Thread(target=take_part, args=(rank,)) for rank in (1, 2, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert met[0] is not None
    assert met[0].answers == {0: b"answer of 0", 1: b"answer of 1", 2: b"answer of 2"}
    assert (met[1], met[2]) == (None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["unhang-asked-0123"]


def test_ranks_that_never_come_are_named(tmp_path: Path) -> None:
    together = gather_inspections(LauncherTask(0, 4), NodeInspection("h1"), tmp_path, 0.3)

    assert together is not None
    situations, (gap,) = together
    assert [situation.rank for situation in situations] == [0]
    assert "1-3" in str(gap.what)
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_to_meet_a_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)

    assert (
        gather_inspections(LauncherTask(1, 2, local_rank=1), NodeInspection("h1"), None, 0.3) is None
    )  # its first rank does
    for rank in range(2):
        together = gather_inspections(LauncherTask(rank, 2), NodeInspection("h1"), None, 0.3)
        assert together is not None
        assert "--dir" in str(together[1][0].because)


def test_a_rank_that_nobody_asks_judges_for_itself(tmp_path: Path) -> None:
    together = gather_inspections(LauncherTask(2, 3), NodeInspection("h1"), tmp_path, 0.3)

    assert together is not None
    situations, (gap,) = together
    assert [situation.rank for situation in situations] == [2]
    assert "0, 1" in str(gap.what)


def test_a_torn_answer_is_a_gap(tmp_path: Path) -> None:
    thread = threading.Thread(target=exchange_answers, args=(LauncherTask(1, 2), b"{torn", tmp_path, 10))
    thread.start()
    together = gather_inspections(LauncherTask(0, 2), NodeInspection("h1"), tmp_path, 10)
    thread.join(20)

    assert together is not None
    assert len(together[0]) == 1
    assert "cannot be read" in str(together[1][0].because)


@pytest.mark.job
@pytest.mark.live
def test_ranks_of_torchrun_meet_at_its_own_store(tmp_path: Path) -> None:
    around = tmp_path / "around"
    around.write_text(
        '#!/bin/sh\n[ "$RANK" = 1 ] && export NCCL_PROTO=LL\n'
        f"exec {sys.executable} -c 'from unhang.cli.main import main; main()' \"$@\"\n"
    )
    around.chmod(0o755)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]

    ran = subprocess.run(
        [*launch, str(around), "check", "--only", "sameness", "--format", "json"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    verdict = json.loads(ran.stdout[: ran.stdout.rindex("}") + 1])
    assert [finding["subject"] for finding in verdict["findings"]] == ["NCCL_PROTO"]
    assert verdict["ranks_seen"] == [0, 1]


def test_this_machine_alone_has_no_finding() -> None:
    here, gaps = inspect_node(Machine(), PlannedJob(), SAMENESS)

    assert gaps == ()
    assert found(here).findings == ()
