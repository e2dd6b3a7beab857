from __future__ import annotations

from pathlib import Path
from typing import get_args

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.logs.logged_values import logged_versions
from unhang.facts.machine.known_defect_signs import _SIGN_TESTS, defect_signs
from unhang.facts.model import Facts
from unhang.knowledge.job.versions import Sign


def facts_of(tmp_path: Path, text: str) -> Facts:
    (tmp_path / "job.log").write_text(text, "utf-8")
    return build_facts(read_evidence([str(tmp_path)]))


def test_every_sign_of_the_knowledge_is_looked_for() -> None:
    assert set(_SIGN_TESTS) == set(get_args(Sign))


def test_a_quiet_log_shows_no_sign(tmp_path: Path) -> None:
    assert defect_signs(facts_of(tmp_path, "step 1\nstep 2\n")) == frozenset()


def test_versions_are_read_from_what_people_paste(tmp_path: Path) -> None:
    text = """NCCL version 2.19.3+cuda12.1
PyTorch version: 2.2.0+cu121
Nvidia driver version: 535.104.05
[pip3] torch==2.2.0
nvidia-nccl-cu12          2.19.3
[2026-05-04 08:00:01,000] [INFO] [logging.py:107:log_dist] [Rank 0] DeepSpeed info: version=0.12.6, git-hash=unknown
- `Accelerate` version: 1.6.0
"""
    found = {(used.package, used.version) for used in logged_versions(facts_of(tmp_path, text))}

    assert found == {
        ("nccl", "2.19.3"),
        ("torch", "2.2.0+cu121"),
        ("torch", "2.2.0"),
        ("nvidia-driver", "535.104.05"),
        ("deepspeed", "0.12.6"),
        ("accelerate", "1.6.0"),
    }


def test_nodes_with_different_numbers_of_ranks_and_sockets_and_nvls_are_seen(tmp_path: Path) -> None:
    start = "comm 0x5{rank} rank {rank} nranks 3 cudaDev 0 busId 7000 commId 0xebe385fab26d7bd - Init START"
    lines = [f"node{rank // 2}:1:2 [0] NCCL INFO {start.format(rank=rank)}" for rank in range(3)]
    lines += [
        "node0:1:2 [0] NCCL INFO Using network Socket",
        "node0:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
    ]

    assert {"unequal-nodes", "sockets", "nvls", "at-start"} <= defect_signs(facts_of(tmp_path, "\n".join(lines)))


def test_nvls_that_is_off_is_no_sign(tmp_path: Path) -> None:
    lines = [
        "node0:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
        "node0:1:2 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.",
    ]

    assert "nvls" not in defect_signs(facts_of(tmp_path, "\n".join(lines)))
