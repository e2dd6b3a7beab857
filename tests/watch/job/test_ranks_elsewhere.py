"""A command that starts ranks on other nodes, where nothing of ours is, is answered with the one that watches all."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.watch.job.unwatched_nodes import UnwatchedNodes, expand_host_list, find_unwatched_nodes

IN_ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h[1-3]"}
TRAIN = ["python", "train.py", "--lr", "1e-3"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "hosts").write_text("# the cluster\nh1 slots=8\n\nh2 slots=8\nh3.cluster slots=8\n")
    return tmp_path


def found(words: str, place: Path, environment: dict[str, str] | None = None) -> UnwatchedNodes | None:
    return find_unwatched_nodes([*words.split(), *TRAIN], environment or {}, here="h1", cwd=place)


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("srun", ("h2", "h3")),
        ("/opt/slurm/bin/srun -N2 -n 16 --gres=gpu:8", ("h2",)),
        ("srun -N 2 --label", ("h2",)),
        ("srun --nodes=2-3 --export=ALL -l", ("h2", "h3")),
        ("srun -w h[2,7] -t 10:00 --cpu-bind=none", ("h2", "h7")),
        ("srun --nodelist h1,h3 --mpi pmix", ("h3",)),
        ("srun -w h1 -N 1", None),
        ("srun -N1", None),
    ],
)
def test_srun(words: str, hosts: tuple[str, ...] | None, place: Path) -> None:
    answer = found(words, place, IN_ALLOCATION)

    assert (answer.hosts if answer else None) == hosts
    if answer is not None:
        assert answer.instead == f"{words} unhang run -- python train.py --lr 1e-3".replace("h[2,7]", "'h[2,7]'")


def test_srun_that_has_yet_to_be_given_its_nodes(place: Path) -> None:
    answer = found("srun -N 3 -p gpu", place)

    assert answer is not None
    assert str(answer.line()).startswith(
        "ranks on other nodes are not watched; start unhang there: srun -N 3 -p gpu un"
    )
    assert found("srun -p gpu", place) is None


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("mpirun -np 24 -H h1:8,h2:8,h3:8 -x NCCL_DEBUG --mca btl tcp,self", ("h2", "h3.cluster")),
        ("mpirun -n 24 --hostfile hosts --allow-run-as-root", ("h2", "h3.cluster")),
        ("mpiexec -f hosts -n 2", ("h2", "h3.cluster")),
        ("mpirun -n 2 --oversubscribe", None),
        ("mpirun -host localhost,h1.cluster -n 2", None),
        ("mpirun --hostfile not-there -n 2", None),
    ],
)
def test_mpirun(words: str, hosts: tuple[str, ...] | None, place: Path) -> None:
    answer = found(words, place)

    assert (answer.hosts if answer else None) == (hosts and tuple(h if "-H" not in words else h[:2] for h in hosts))
    if answer is not None:
        assert answer.instead == f"{words} unhang run -- python train.py --lr 1e-3"


def test_deepspeed_needs_a_start_on_every_node(place: Path) -> None:
    answer = find_unwatched_nodes(
        ["deepspeed", "--hostfile", "hosts", "--master_port=29501", "train.py"], {}, here="h1", cwd=place
    )

    assert answer is not None
    assert answer.hosts == ("h1", "h2", "h3.cluster")  # over ssh the ranks on this node too are without what we set
    assert answer.instead == (
        "unhang run -- deepspeed --no_ssh --node_rank=N --master_addr=h1 --hostfile hosts --master_port=29501 train.py"
    )
    assert "start unhang on every node: " in str(answer.line())


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("--hostfile=hosts --num_nodes 2", ("h1", "h2")),
        ("--hostfile=hosts --include h2@h3.cluster:0,1", ("h2", "h3.cluster")),
        ("-H hosts --exclude h2 --launcher slurm", ("h3.cluster",)),
        ("-H hosts --num_nodes=1", None),
        ("-H hosts --no_ssh --node_rank 1", None),
        ("--num_gpus 2", None),
    ],
)
def test_which_of_the_host_file(words: str, hosts: tuple[str, ...] | None, place: Path) -> None:
    answer = find_unwatched_nodes(["deepspeed", *words.split(), "train.py", "--deepspeed"], {}, here="h1", cwd=place)

    assert (answer.hosts if answer else None) == hosts


@pytest.mark.parametrize(
    "words", ["srun -N3 unhang run --", "srun -N3 /opt/bin/unhang run --", "torchrun --nnodes 3", "echo srun -N3"]
)
def test_who_starts_us_there_or_is_started_there_hears_nothing(words: str, place: Path) -> None:
    assert found(words, place, IN_ALLOCATION) is None


def test_many_nodes_are_one_line(place: Path) -> None:
    answer = found("srun", place, {"SLURM_JOB_NODELIST": "h[0001-1250],login"})

    assert answer is not None
    assert len(answer.hosts) == 1251
    assert str(answer.line()).startswith("ranks on h0001, h0002, h0003, … (+1248) are not watched")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h1", ["h1"]),
        ("h[1-3,07],login", ["h1", "h2", "h3", "h07", "login"]),
        ("gpu-[08-11].example", ["gpu-08.example", "gpu-09.example", "gpu-10.example", "gpu-11.example"]),
        ("", []),
        ("h[1-", []),
        ("h[3-1]", []),
    ],
)
def test_names_as_slurm_writes_them(text: str, names: list[str]) -> None:
    assert expand_host_list(text) == names


def test_no_more_names_than_a_cluster_has() -> None:
    assert len(expand_host_list("h[0-999999999]")) <= 65_536
