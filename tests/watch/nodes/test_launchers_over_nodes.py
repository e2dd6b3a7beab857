"""Launchers over three hosts: real ones where they are installed; and the examples say what unhang understands."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.watch.nodes import slurm_cluster, ssh_between, three_hosts
from tests.watch.nodes.slurm_cluster import Slurm, slurm
from tests.watch.nodes.ssh_between import Ssh
from tests.watch.nodes.three_hosts import Hosts, hosts
from tests.watch.nodes.watched_job import WatchedJob
from tests.watch.signal_programs import RUN
from unhang.watch.nodes.transport.node_discovery import JobNodes, discover_nodes
from unhang_lab.lab_case import find_case

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TRAIN = find_case("missing-rank").path
PYTHON = shlex.quote(sys.executable)
OF_SLURM = f"RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec {PYTHON} {TRAIN}"
OF_MPI = (
    "RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE "
    f"GLOO_SOCKET_IFNAME=eth0 MASTER_ADDR=10.92.0.1 MASTER_PORT=29500 exec {PYTHON} {TRAIN}"
)
RENDEZVOUS = {"MASTER_ADDR": "10.92.0.1", "MASTER_PORT": "29500"}


def real(*reasons: str) -> list[pytest.MarkDecorator]:
    """Marks of a test that needs the hosts and what else may be missing."""
    reason = three_hosts.why_not() or next((reason for reason in reasons if reason), "")
    marks = [pytest.mark.job, pytest.mark.live, pytest.mark.timeout(420)]
    return [*marks, pytest.mark.skipif(bool(reason), reason=reason or "-")]


def marked(*reasons: str) -> Any:
    """The same as one decorator."""

    def mark(test: Any) -> Any:
        for each in real(*reasons):
            test = each(test)
        return test

    return mark


def installed(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    return "" if beside.exists() or shutil.which(name) else f"{name} is not installed"


@pytest.fixture
def three() -> Iterator[Hosts]:
    with hosts(3) as made:
        yield made


@pytest.fixture
def cluster(three: Hosts, tmp_path: Path) -> Slurm:
    return slurm(three, tmp_path / "slurm")


@pytest.fixture
def ssh(three: Hosts, tmp_path: Path) -> Ssh:
    return ssh_between.ssh_between(three, tmp_path / "ssh")


def job_of(three: Hosts, place: Path, **environment: str) -> WatchedJob:
    """Watchers that meet in a folder."""
    return WatchedJob.of(three, place, TRAIN, shared=True, environment={**RENDEZVOUS, **environment})


def run_words(job: WatchedJob) -> list[str]:
    return [*RUN, "--dir", str(job.place / "run"), "--nodes-via", job.via, "--"]


def assert_last_rank_on_h3(verdict: dict[str, Any], job: WatchedJob, ranks: int = 3) -> None:
    first = verdict["findings"][0]
    assert (verdict["status"], first["cause"]) == ("hang", "rank-conditional-collective"), job.said()
    assert (first["ranks"], first["nodes"]) == ([ranks - 1], ["h3"]), job.said()
    assert verdict["ranks_seen"] == list(range(ranks)), job.said()


@marked(slurm_cluster.why_not())
def test_srun_starts_one_torchrun_a_node(cluster: Slurm, three: Hosts, tmp_path: Path) -> None:
    job = job_of(three, tmp_path, **cluster.environment)
    torchrun = f"exec {PYTHON} -m torch.distributed.run --nnodes=3 --nproc-per-node=1 --rdzv-backend=c10d "
    torchrun += f"--rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=10.92.0.1:29500 {TRAIN}"
    words = ["srun", "-N3", "--ntasks-per-node=1", *run_words(job), "sh", "-c", torchrun]
    three[1].start(words, job.log(three[1]), environment=job.environment, cwd=tmp_path)

    verdict = job.wait_for_verdict(three[1])

    assert verdict["findings"][0]["cause"] == "rank-conditional-collective"
    assert (verdict["ranks_seen"], len(verdict["findings"][0]["nodes"])) == ([0, 1, 2], 1)
    assert job.printed(three[1]).count("HANG ") == 1, job.said()


@marked(slurm_cluster.why_not())
def test_srun_starts_a_task_a_rank(cluster: Slurm, three: Hosts, tmp_path: Path) -> None:
    """Two on each node: they share its watcher, and the three watchers meet."""
    job = job_of(three, tmp_path, **cluster.environment)
    words = ["srun", "-N3", "--ntasks-per-node=2", *run_words(job), "sh", "-c", OF_SLURM]
    three[1].start(words, job.log(three[1]), environment=job.environment, cwd=tmp_path)

    assert_last_rank_on_h3(job.wait_for_verdict(three[1]), job, ranks=6)
    assert job.printed(three[1]).count("HANG ") == 1, job.said()


@marked(slurm_cluster.why_not())
def test_around_srun_a_line_says_what_is_not_watched(cluster: Slurm, three: Hosts, tmp_path: Path) -> None:
    job = job_of(three, tmp_path, **cluster.environment)
    words = [*RUN, "--dir", str(tmp_path / "run"), "--", "srun", "-N3", "sh", "-c", OF_SLURM]
    three[1].start(words, job.log(three[1]), environment=job.environment, cwd=tmp_path)
    job.wait_for(lambda: job.printed(three[1]).count("step 11") == 3)

    printed = job.printed(three[1])
    assert printed.count("are not watched") == 1, printed
    assert "start unhang there: srun -N3 unhang run -- sh -c" in printed
    assert sum(line.startswith("unhang: ") for line in printed.splitlines()) == 1, printed  # and nothing from elsewhere


@marked(installed("mpirun"), ssh_between.why_not())
def test_mpirun_over_ssh(ssh: Ssh, three: Hosts, tmp_path: Path) -> None:
    job = job_of(three, tmp_path, **ssh.environment)
    words = ["mpirun", "--allow-run-as-root", "--mca", "btl_tcp_if_include", "eth0", "-H", "h1,h2,h3", "-n", "3"]
    words += ["-x", "TRAIN_BACKEND", *run_words(job), "sh", "-c", OF_MPI]
    three[1].start(words, job.log(three[1]), environment=job.environment, cwd=tmp_path)

    verdict = job.wait_for_verdict(three[1])
    assert (verdict["status"], verdict["findings"][0]["ranks"]) == ("hang", [2]), job.said()
    assert verdict["ranks_seen"] == [0, 1, 2], job.said()


@marked(installed("deepspeed"))
def test_deepspeed_started_on_every_node(three: Hosts, tmp_path: Path) -> None:
    job = job_of(three, tmp_path, DS_ACCELERATOR="cpu")
    (tmp_path / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")
    for rank, host in enumerate(three.all):
        deepspeed = [sys.executable, "-m", "deepspeed.launcher.runner", "--no_ssh", f"--node_rank={rank}"]
        deepspeed += ["--master_addr=10.92.0.1", "--master_port=29500", f"--hostfile={tmp_path / 'hosts'}", str(TRAIN)]
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "deepspeed").write_text(f'#!/bin/sh\nexec {PYTHON} -m deepspeed.launcher.runner "$@"\n')
        (tmp_path / "bin" / "deepspeed").chmod(0o755)
        job.start_on(host, [str(tmp_path / "bin" / "deepspeed"), *deepspeed[3:]])

    assert_last_rank_on_h3(job.wait_for_verdict(three[1]), job)


@marked(installed("accelerate"))
def test_accelerate_started_on_every_node(three: Hosts, tmp_path: Path) -> None:
    job = job_of(three, tmp_path)
    for rank, host in enumerate(three.all):
        words = [str(Path(sys.executable).with_name("accelerate")), "launch", "--multi_gpu", "--num_processes=3"]
        words += ["--num_machines=3", f"--machine_rank={rank}", "--main_process_ip=10.92.0.1"]
        words += ["--main_process_port=29500", "--mixed_precision=no", "--dynamo_backend=no", str(TRAIN)]
        job.start_on(host, words)

    assert_last_rank_on_h3(job.wait_for_verdict(three[1]), job)


def test_deepspeed_is_one_start_over_nodes_only_without_ssh() -> None:
    words = [
        "deepspeed",
        "--no_ssh",
        "--node_rank=2",
        "--master_addr=h1",
        "-H",
        "hosts",
        "--num_nodes",
        "4",
        "train.py",
    ]

    assert discover_nodes({}, words) == JobNodes("deepspeed h1:29500", 4, 2, "h1", 29500)
    assert discover_nodes({}, [word for word in words if word not in ("--num_nodes", "4")]) == JobNodes(
        "deepspeed h1:29500", 0, None, "h1", 29500
    )
    assert discover_nodes({}, [word for word in words if word != "--no_ssh"]) is None


@pytest.mark.parametrize(("replica", "number"), [("Master", 0), ("Worker", 2)])
def test_the_kubernetes_example_is_understood(replica: str, number: int) -> None:
    """As its pods run it, with the variables the operator sets."""
    told = yaml.safe_load((EXAMPLES / "kubernetes" / "pytorchjob.yaml").read_text())
    replicas = told["spec"]["pytorchReplicaSpecs"]
    (container,) = replicas[replica]["template"]["spec"]["containers"]
    environment = {"RANK": str(number), "MASTER_ADDR": "train-master-0", "MASTER_PORT": "23456", "HOSTNAME": "pod"}
    words = words_of("\n".join(container["args"]), "/tmp/unhang/bin/unhang", environment)

    assert container["name"] == "pytorch"
    assert {one["name"] for one in container["env"]} == {"UNHANG_TOKEN", "UNHANG_NODE_NAME"}
    assert words[:4] == ["run", "--dir", "/evidence/run-1", "--"]
    party = discover_nodes(environment, words[4:])
    assert party == JobNodes("torchrun none train-master-0:23456", 3, number, "train-master-0", 23456)
    assert party.count == sum(one["replicas"] for one in replicas.values())


@pytest.mark.parametrize("name", ["torchrun", "task-per-rank"])
def test_the_slurm_examples_are_understood(name: str) -> None:
    script = (EXAMPLES / "slurm" / f"{name}.sbatch").read_text()
    of_step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "4", "SLURM_NODEID": "3"}
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "4", "MASTER_ADDR": "h1", "MASTER_PORT": "10007"}
    words = words_of(script.partition("\nsrun ")[2], "unhang", environment)

    party = discover_nodes({**environment, **of_step}, words[4:])

    assert words[:4] == ["run", "--dir", "runs/7.0", "--"]
    assert party is not None
    assert (party.count, party.address, party.port) == (4, "h1", 10007)


def words_of(script: str, program: str, environment: dict[str, str]) -> list[str]:
    """The words that ``program`` would be started with, as the shell makes them."""
    start = script.index(program)
    printing = 'printf "%s\\0" ' + script[start + len(program) :]
    done = subprocess.run(
        ["bash", "-euc", printing], env={"PATH": os.environ["PATH"], **environment}, capture_output=True, check=True
    )
    return done.stdout.decode().split("\0")[:-1]
