"""What `unhang explain` promises: the right page for whatever people type or paste, offline, in either language."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.command import unhang
from unhang.findings import Cause
from unhang.knowledge.hardware import xid_row
from unhang.knowledge.messages import load_messages
from unhang.knowledge.terms import terms
from unhang.report.explain.explanation_text import explanation_layout, localized
from unhang.report.explain.search import explain
from unhang.report.localizer import Localizer

TIMEOUT = (
    "[rank3]:[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=1474236, OpType=_ALLGATHER_BASE, NumelIn=262675456, NumelOut=1050701824, Timeout(ms)=600000) ran "
    "for 600068 milliseconds before timing out."
)


def titles(text: str) -> list[str]:
    return [page.title for page in explain(text).pages]


@pytest.mark.parametrize(
    ("pasted", "title", "meaning"),
    [
        (
            "(trainer pid=7) POST http://10.0.0.2:8000/pause timed out (attempt 1/3), retrying...",
            "trl: POST {} timed out (attempt {}/{}), retrying...",
            "Another process failed or did not answer: what that one printed first says more.",
        ),
        (
            "Failed to patch transformers HybridCache compatibility: no module named cache_utils",
            "trl: Failed to patch transformers HybridCache compatibility: {}",
            "It says only that something failed: the reason is printed with it or above it.",
        ),
    ],
)
def test_a_line_that_no_row_knows_is_of_a_template_of_a_program(pasted: str, title: str, meaning: str) -> None:
    [page] = explain(pasted).pages

    assert (page.kind, page.title) == ("message", title)
    assert localized(page.meaning[0], Localizer("en")) == meaning
    assert page.source.startswith("trl/")


@pytest.mark.parametrize(
    "pasted", ["Failed to load model, rc=1", "AttributeError: 'function' object has no attribute 'update'"]
)
def test_a_line_that_any_program_may_print_is_of_none(pasted: str) -> None:
    assert not any(page.source.count(".py:") for page in explain(pasted).pages)


@pytest.mark.parametrize(
    ("asked", "kind", "title"),
    [
        ("rank-crashed", "cause", "rank-crashed"),
        ("Uneven Data", "cause", "uneven-data"),
        ("nccl_p2p_disable", "variable", "NCCL_P2P_DISABLE"),
        ("export NCCL_DEBUG=INFO", "variable", "NCCL_DEBUG"),
        ("NCCL_TIMEOUT", "variable", "NCCL_TIMEOUT"),
        ("Xid 79", "xid", "Xid 79 (ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS)"),
        ("79", "xid", "Xid 79 (ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS)"),
        ("ncclRemoteError", "nccl-error", "ncclRemoteError"),
        ("unhandled system error", "nccl-error", "ncclSystemError"),
        ("_ALLGATHER_BASE", "operation", "_ALLGATHER_BASE"),
        ("all_reduce", "operation", "ALLREDUCE"),
        ("OpType=BROADCAST", "operation", "BROADCAST"),
        ("error 12", "status", "completion error 12"),
        ("status=5", "status", "completion error 5"),
        ("-9", "exit", "exit code -9 (SIGKILL)"),
        ("-6", "exit", "exit code -6 (SIGABRT)"),
        ("CUDA 9.1", "subject", "CUDA version"),
        ("CUDA 9.1 过时", "subject", "CUDA version"),
        ("CUDA12.4 版本", "subject", "CUDA version"),
        ("torch==2.7.0", "version", "torch 2.7.0"),
        ("NCCL 2.27.5", "version", "nccl 2.27.5"),
        ("1800 s", "limit", "1800 s"),
        ("Timeout(ms)=600000", "limit", "600 s"),
        ("掉卡", "word", "GPU fell off the bus"),
        ("卡死", "word", "hang"),
        ("卡住", "word", "hang"),
        ("多卡超时", "word", "timeout"),
        ("显存不足", "word", "gpu oom"),
        ("掉队", "word", "straggler"),
        ("死锁", "word", "deadlock"),
        ("4090卡住", "word", "p2p"),
        ("exit code 137", "exit", "exit code -9 (SIGKILL)"),
        ("退出码 139", "exit", "exit code -11 (SIGSEGV)"),
        ("OOM killed", "word", "host memory"),
        ("xid-79", "xid", "Xid 79 (ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS)"),
        ("SXid 20034", "word", "sxid"),
        ("NCCL error 2", "nccl-error", "ncclSystemError"),
        ("600000", "limit", "600 s"),
        ("1800", "limit", "1800 s"),
        ("卡在 init_process_group", "word", "init hang"),
        ("evaluation hangs", "word", "eval hang"),
        ("hanging while saving the checkpoint", "word", "save hang"),
        ("deepspeed stage 3 hangs", "word", "zero3"),
        ("gpu util 100% but no progress", "word", "100% gpu"),
        ("--shm-size", "word", "shm"),
        ("retry exceeded", "status", "completion error 12"),
        ("last enqueued work", "word", "pg status"),
        ("monitored_barrier", "word", "monitored_barrier"),
        ("AWS EFA", "word", "efa"),
        ("MTU", "word", "mtu"),
    ],
)
def test_what_people_type_finds_its_page(asked: str, kind: str, title: str) -> None:
    pages = explain(asked).pages

    assert (pages[0].kind, pages[0].title) == (kind, title)


def test_a_number_that_is_an_exit_code_and_an_xid_gets_both_pages() -> None:
    assert [page.kind for page in explain("137").pages] == ["exit", "xid"]


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: f"> {text}", lambda text: f"12: {text}"])
def test_a_message_pasted_whole_is_read_as_a_log_is(wrap) -> None:  # type: ignore[no-untyped-def]
    page = explain(wrap(TIMEOUT)).pages[0]

    assert page.kind == "message"
    assert any("position=1474236" in str(line) for _, line in page.details)
    assert any(str(line) == "4 ranks (NumelOut / NumelIn)" for _, line in page.details)


@pytest.mark.parametrize(
    ("message", "title"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
            "Xid 79 (ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS)",
        ),
        ("failed (exitcode: -9) local_rank: 3 (pid: 12) of binary: /usr/bin/python", "exit code -9 (SIGKILL)"),
        (
            "n1:7:9 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.3<1> with status=12 opcode=0 len=0 vendor",
            "completion error 12",
        ),
    ],
)
def test_codes_inside_a_message_get_their_own_page(message: str, title: str) -> None:
    assert title in titles(message)


@pytest.mark.parametrize("words", ["loss spike", "some words nobody knows", "NCCL is slow to compile today"])
def test_words_are_not_taken_for_a_warning_that_nobody_described(words: str) -> None:
    assert "NCCL: n.warn" not in titles(words)


def test_a_benign_line_says_that_it_is_harmless_and_asks_for_nothing() -> None:
    page = explain("h:1:2 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)").pages[0]

    assert page.harmless is not None
    assert page.do == ()


def test_a_message_without_its_prefix_is_found() -> None:
    assert titles("socketStartConnect: Connect to 10.1.2.3<500> failed : Software caused connection abort") == [
        "NCCL: n.conn"
    ]


def test_half_a_message_is_found_by_its_words() -> None:
    assert [page.kind for page in explain("Got completion from peer").pages] == ["message"]


def test_every_cause_has_a_page_with_what_to_do() -> None:
    for cause in Cause:
        page = explain(cause.value).pages[0]
        assert page.meaning, cause
        assert page.do, cause
        assert {str(label) for label, _ in page.details} >= {"Why it hangs", "Example"}, cause


def test_every_message_explains_its_own_example() -> None:
    silent = [row.id for row in load_messages() if not explain(row.example).pages]

    assert silent == []


def test_a_setting_that_nccl_reads_as_zero_is_called_out() -> None:
    said = [str(line) for line in explain("NCCL_P2P_DISABLE=true").pages[0].do]

    assert any("counts as 0" in line for line in said)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_line_is_wider_than_eighty_columns_unless_it_is_one_word(lang: str) -> None:
    words = [cause.value for cause in Cause] + [term.names[0] for term in terms()] + ["Xid 79", TIMEOUT]
    for word in words:
        for line in explanation_layout(explain(word), Localizer(lang)).plain().splitlines():
            assert cell_len(line) <= 80, line


def test_every_word_that_a_page_points_to_has_a_page() -> None:
    for word in ["NCCL_ASYNC_ERROR_HANDLING", "xid", TIMEOUT, *(term.names[0] for term in terms())]:
        for page in explain(word).pages:
            for further in (*page.causes, *page.see_also):
                assert explain(further).pages, further


def test_the_command_prints_a_page_and_succeeds() -> None:
    run = unhang("explain", "Xid", "79")

    assert run.returncode == 0
    assert "fell off the bus" in run.stdout


def test_an_unknown_word_says_what_looks_like_it() -> None:
    run = unhang("explain", "NCCL_P2P_DISABLED")

    assert run.returncode == 2
    assert run.stdout == ""
    assert "nearest: NCCL_P2P_DISABLE" in run.stderr


def test_json_is_one_object_found_or_not() -> None:
    found = unhang("explain", "-9", "--format", "json")
    unknown = unhang("explain", "rank-crashd", "--format", "json")

    assert json.loads(found.stdout)["pages"][0]["kind"] == "exit"
    assert json.loads(unknown.stdout)["pages"] == []
    assert json.loads(unknown.stdout)["did_you_mean"] == ["rank-crashed"]
    assert (found.returncode, unknown.returncode) == (0, 2)


@pytest.mark.parametrize(
    "hostile", ["", " ", "\x00" * 50, "{x}", "{", "A" * 300_000, "\x1b[31mred", "[" * 5000, "=" * 99]
)
def test_nothing_typed_breaks_it(hostile: str) -> None:
    assert explain(hostile).pages == ()


def test_codes_that_stop_jobs_are_known() -> None:
    for code in (13, 31, 48, 74, 79, 94, 95, 119):
        assert xid_row(code) is not None, code


def test_words_of_an_incident_find_it_with_its_link_and_what_ended_it() -> None:
    run = unhang("explain", "EFA", "handshake")
    chinese = unhang("explain", "--lang", "zh", "EFA", "handshake")

    assert run.returncode == 0
    for printed in (run.stdout, chinese.stdout):
        assert "https://github.com/gardener/gardener-extension-provider-aws/issues/1832" in printed
    assert "A security-group rule that allows all traffic" in run.stdout
    assert "加一条安全组规则" in chinese.stdout
    assert "事故" not in run.stdout


def test_a_cause_shows_incidents_of_its_own_and_a_message_those_that_look_like_it() -> None:
    assert {row.cause for row in explain("gpu-hardware").incidents} == {Cause.GPU_HARDWARE}
    pasted = explain("NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 1000, invalid usage")
    assert {row.cause for row in pasted.incidents} == {Cause.DEVICE_MAPPING}


def test_a_misspelt_word_is_asked_back_and_not_searched_in_incidents() -> None:
    assert explain("NCCL_P2P_DISABLED").incidents == ()


def test_json_has_the_incidents_with_their_signs() -> None:
    document = json.loads(unhang("explain", "EFA", "handshake", "--format", "json").stdout)

    assert document["pages"] == []
    assert document["incidents"][0]["cause"] == "network-config"
    assert document["incidents"][0]["signs"]
