"""Health needs proof: what shows it is called healthy, what only fails to show trouble never is."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Certainty, Health, Severity, Status, Verdict
from unhang.report.text import to_text

LOGS = tomli.loads(Path(__file__).with_name("health_logs.toml").read_text(encoding="utf-8"))
CASES = Path(__file__).parents[1] / "cases" / "unknown"
LAUNCH = "$ torchrun --nproc_per_node=2 train.py\nstep 1 loss 2\n"
ENDED = "$ echo $?\n0\n"


def verdict_on(folder: Path, **files: str) -> Verdict:
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return diagnose(build_facts(read_evidence([str(folder)])))


@pytest.mark.parametrize("name", [name for name, log in LOGS.items() if log["shown"]])
def test_a_log_that_shows_health_is_healthy_without_an_alarm(name: str, tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, job=LOGS[name]["log"])

    assert verdict.status is Status.HEALTHY
    assert verdict.checked
    assert [finding for finding in verdict.findings if finding.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("name", [name for name, log in LOGS.items() if not log["shown"]])
def test_a_log_that_does_not_show_health_is_not_healthy(name: str, tmp_path: Path) -> None:
    assert verdict_on(tmp_path, job=LOGS[name]["log"]).status is not Status.HEALTHY


@pytest.mark.parametrize("lost", range(4))
def test_without_the_word_of_one_rank_it_is_not_shown(lost: int, tmp_path: Path) -> None:
    words = [f"[rank {rank}] process group destroyed" for rank in range(4)]
    log = "\n".join(["world_size=4", *(f"[rank {rank}] epoch 1 loss 1.0" for rank in range(4)), "step 1", "step 2"])

    whole = verdict_on(tmp_path, job="\n".join([log, *words, ""]))
    lacking = verdict_on(tmp_path, job="\n".join([log, *words[:lost], *words[lost + 1 :], ""]))

    assert whole.status is Status.HEALTHY
    assert lacking.status is Status.UNKNOWN
    assert str(lacking.findings[0].summary).endswith(f"reported their end; rank {lost} did not")


def test_of_a_rank_whose_end_is_not_told_the_last_line_is_quoted() -> None:
    verdict = verdict_on(Path(__file__).parents[2] / "benchmarks" / "endings" / "ends" / "e17")

    assert [(quote.rank, quote.text) for quote in verdict.findings[0].evidence] == [
        (0, "Saving model checkpoint to final_model.bin"),
        (1, "***** training finished in 0.22s *****"),
    ]


def test_the_proof_quotes_the_line_and_its_place(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, job=f"{LAUNCH}{ENDED}")

    assert [str(check.what) for check in verdict.checked] == ["all ranks ended well: 0 (job.log:4)"]


def test_a_second_start_after_the_end_is_not_proved_by_it(tmp_path: Path) -> None:
    assert verdict_on(tmp_path, job=f"{LAUNCH}{ENDED}{LAUNCH}").status is Status.UNKNOWN


def test_the_end_of_one_node_is_not_that_of_the_other(tmp_path: Path) -> None:
    node = LAUNCH.replace("--nproc", "--nnodes=2 --node_rank={} --nproc") + ENDED

    assert verdict_on(tmp_path, node0=node.format(0)).status is Status.UNKNOWN
    assert verdict_on(tmp_path, node1=node.format(1)).status is Status.HEALTHY


def test_a_good_end_tells_nothing_of_an_earlier_command(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, job=LOGS["second-run-of-a-tool-is-well"]["log"])

    assert verdict.findings[0].severity is Severity.STOPS


def test_what_the_job_outlived_is_a_note_and_what_it_may_have_died_of_is_not(tmp_path: Path) -> None:
    warning = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB\n"

    stopped = verdict_on(tmp_path, job=f"{LAUNCH}{warning}step 2 loss 2\n")
    outlived = verdict_on(tmp_path, job=f"{LAUNCH}{warning}step 2 loss 2\n{ENDED}")

    assert stopped.findings[0].severity is Severity.STOPS
    assert outlived.status is Status.HEALTHY
    assert {finding.severity for finding in outlived.findings} == {Severity.NOTE}


def test_a_healthy_job_is_headed_by_its_proof_and_notes_stand_below() -> None:
    facts = build_facts(read_evidence([str(CASES / "miss_health_kubernetes_waited_for_nodes" / "input")]))

    english, chinese = (to_text(diagnose(facts), facts, lang=lang) for lang in ("en", "zh"))

    assert english.startswith(
        "HEALTHY  All ranks ended well\n      Message: PyTorchJob pytorch-dist-job is successfully"
    )
    assert chinese.startswith("正常  所有 rank 都正常结束\n")
    assert "Next" not in english
    assert english.index("Also found") < english.index("Unschedulable")


def test_where_nothing_is_proven_the_first_line_says_how_far_it_came(tmp_path: Path) -> None:
    log = (
        "world_size=4\n"
        + "".join(f"[rank0] step {step}/2000 loss 1\n" for step in (1990, 2000))
        + "Training completed\n"
    )
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    facts = build_facts(read_evidence([str(tmp_path)]))
    verdict = diagnose(facts)

    english, chinese = (to_text(verdict, facts, lang=lang) for lang in ("en", "zh"))

    assert verdict.health == Health(Certainty.POSSIBLE, (verdict.findings[0].summary,))
    assert english.startswith("NO PROBLEM FOUND  Rank 0 reached step 2000/2000 and reported its end\n")
    assert chinese.startswith("没发现问题  rank 0 到达 step 2000/2000，并报告了自己结束\n")
    assert english.count("1-3") == chinese.count("1-3") == 1, "who is missing is said once"
    assert "Ranks 1-3: no log line, dump or stack marked as such was given\n    $ unhang diagnose LOGDIR" in english


@pytest.mark.parametrize(
    "end", ["exit code: 0", "rank 0: training finished", "all 4 ranks finished", "rank 0: saved the final checkpoint"]
)
def test_neither_a_pipe_nor_words_prove_health(end: str, tmp_path: Path) -> None:
    traced = "+ torchrun --nproc_per_node=4 train.py\n+ tee train.log\n[rank0]: world_size=4\nstep 10 loss 2\n"

    assert verdict_on(tmp_path, job=f"{traced}step 20 loss 2\n{end}\n").status is Status.UNKNOWN


def test_a_pipe_behind_more_blanks_than_are_read_is_still_one(tmp_path: Path) -> None:
    piped = LAUNCH.replace("train.py", f"train.py{' ' * 9000}2>&1 | tee train.log")

    assert verdict_on(tmp_path, job=f"{piped}step 2 loss 2\n{ENDED}").status is Status.UNKNOWN


def test_the_exit_code_of_a_pipe_that_reports_failures_proves_health(tmp_path: Path) -> None:
    traced = "+ set -o pipefail\n+ torchrun --nproc_per_node=4 train.py\n+ tee train.log\nstep 10 loss 2\n"

    assert verdict_on(tmp_path, job=f"{traced}step 20 loss 2\nexit code: 0\n").status is Status.HEALTHY


def test_an_error_that_nobody_explains_is_a_problem(tmp_path: Path) -> None:
    steps = "".join(f"[rank0]: step {step}/9 loss 2\n" for step in (1, 2))
    log = f"[rank0]: world_size=2\n{steps}ERROR: shard 12 failed its checksum\n"

    verdict = verdict_on(tmp_path, job=log)

    assert (verdict.status, verdict.health) == (Status.UNKNOWN, None)
    assert "shard 12 failed its checksum" in str(verdict.findings[0].summary)
