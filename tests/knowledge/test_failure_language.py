"""The language of failure: lines as the programs print them, and what they say in general words."""

from __future__ import annotations

import math
import os

import pytest

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge.failure_language import (
    CUT_SHARE,
    ELSEWHERE,
    HARMLESS,
    NAMES,
    STRENGTHS,
    VAGUE,
    LanguageRow,
    _subjects,
    failure_rows,
    find_failure_statement,
    without_guesses,
)
from unhang.knowledge.tables import typed_rows

SAID = [
    # accelerators
    ("torch.AcceleratorError: XPU out of memory. Tried to allocate 2.00 GiB", Cause.GPU_OOM),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Cause.GPU_OOM),
    ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", Cause.GPU_OOM),
    ("RuntimeError: NPU out of memory. Tried to allocate 512.00 MiB (NPU 3; 60.97 GiB total capacity)", Cause.GPU_OOM),
    ("RuntimeError: Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", Cause.GPU_OOM),
    ("Unable to determine the device handle for GPU0000:8A:00.0: GPU is lost.  Reboot the system", Cause.GPU_HARDWARE),
    ("pynvml.NVMLError_GpuIsLost: GPU is lost", Cause.GPU_HARDWARE),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Cause.GPU_HARDWARE),
    ("ERR99999 UNKNOWN applicaiton exception, HBM MULTI BIT ECC, error code is 507054", Cause.GPU_HARDWARE),
    ("RuntimeError: Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)", Cause.GPU_HARDWARE),
    ("HW Exception by GPU node-3 (Agent handle: 0x55) reason :GPU Hang", Cause.GPU_HARDWARE),
    ("RuntimeError: CUDA error: peer access is not supported between these two devices", Cause.P2P_BROKEN),
    ("AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0029 address=0x180 flags=0x0020]", Cause.P2P_BROKEN),
    ("RuntimeError: CUDA error: invalid device ordinal", Cause.DEVICE_MAPPING),
    ("RuntimeError: No HIP GPUs are available", Cause.DEVICE_MAPPING),
    ("RuntimeError: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 50000", Cause.DEVICE_MAPPING),
    ("SetPrecisionMode:Set device failed, error code is 107001, invalid device id", Cause.DEVICE_MAPPING),
    # versions
    ("Failed to initialize NVML: Driver/library version mismatch", Cause.VERSION_MISMATCH),
    ("ImportError: /usr/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister", Cause.VERSION_MISMATCH),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", Cause.VERSION_MISMATCH),
    ("OSError: libcudart.so.11.0: cannot open shared object file: No such file or directory", Cause.VERSION_MISMATCH),
    ("Error 803: system has unsupported display driver / cuda driver combination", Cause.VERSION_MISMATCH),
    ("/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./a)", Cause.VERSION_MISMATCH),
    # host
    (f"OSError: [Errno 12] {os.strerror(12)}", Cause.HOST_MEMORY),
    (f"OSError: [Errno 24] {os.strerror(24)}: '/proc/self'", Cause.HOST_MEMORY),
    (f"RuntimeError: unable to write to file </torch_12>: {os.strerror(28)} (28) in shared memory", Cause.HOST_MEMORY),
    ("Last State: Terminated  Reason: OOMKilled  Exit Code: 137", Cause.HOST_MEMORY),
    ("trainer-0   0/1   Evicted   0   3h", Cause.HOST_MEMORY),
    ("SafetensorError: Error while deserializing header: incomplete metadata", Cause.RANK_CRASHED),
    ("RuntimeError: can't start new thread", Cause.HOST_MEMORY),
    ("terminate called after throwing an instance of 'std::bad_alloc'", Cause.HOST_MEMORY),
    ("RuntimeError: 内存不足, 无法分配内存", Cause.HOST_MEMORY),
    # network
    (f"NCCL WARN Connect to 10.0.0.4<4242> failed : {os.strerror(101)}", Cause.NETWORK_CONFIG),
    (f"RuntimeError: connect: {os.strerror(113)}", Cause.NETWORK_CONFIG),
    (f"bind(10.1.2.3): {os.strerror(99)}", Cause.NETWORK_CONFIG),
    ("RuntimeError: Unable to find address for: eth1", Cause.NETWORK_CONFIG),
    ("RuntimeError: Unable to find interface for: [10.2.3.4]", Cause.NETWORK_CONFIG),
    ("mlx5_3: QP 0x12: IBV_WC_RETRY_EXC_ERR(12) vendor err 129", Cause.NETWORK_FAULT),
    ("EI0013: An error CQE occurred during operator execution. Local information: server", Cause.NETWORK_FAULT),
    ("eth0: NIC Link is Down", Cause.NETWORK_FAULT),
    # meeting
    ("ValueError: host not found: Name or service not known", Cause.RENDEZVOUS),
    ("socket.gaierror: [Errno -3] Temporary failure in name resolution", Cause.RENDEZVOUS),
    ("dial tcp: lookup master-0 on 10.96.0.10:53: no such host", Cause.RENDEZVOUS),
    (f"OSError: [Errno 98] {os.strerror(98)}", Cause.RENDEZVOUS),
    ("EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time", Cause.RENDEZVOUS),
    ("0/6 nodes are available: 6 Insufficient nvidia.com/gpu.", Cause.RENDEZVOUS),
    ("ssh: connect to host node3 port 22: Connection refused", Cause.RENDEZVOUS),
    ("RuntimeError: 端口被占用", Cause.RENDEZVOUS),
    # calls
    ("Mismatched allreduce tensor shapes: One rank sent [2]", Cause.COLLECTIVE_MISMATCH),
    ("MPI_ERR_TRUNCATE: message truncated", Cause.COLLECTIVE_MISMATCH),
    ("EI0005: The arguments for collective communication are inconsistent between ranks", Cause.COLLECTIVE_MISMATCH),
    ("tensors were submitted to be reduced by a subset of ranks", Cause.RANK_CONDITIONAL_COLLECTIVE),
    # work
    ("Lock file exists in build directory: '/root/.cache/torch_extensions/x/lock'", Cause.RANK_FROZEN),
    ("INFO: task python:4242 blocked for more than 120 seconds.", Cause.RANK_FROZEN),
    ("Segmentation fault (core dumped)", Cause.RANK_CRASHED),
    ("train.py exits with return code = -9", Cause.HOST_MEMORY),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause"), SAID, ids=[line[:40] for line, _ in SAID])
def test_a_line_as_programs_print_it_says_its_cause(line: str, cause: Cause) -> None:
    said = find_failure_statement(line, "start")

    assert said is not None
    assert said.row.cause is cause, said


@pytest.mark.parametrize(
    ("line", "strength"),
    [
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", ELSEWHERE),
        ("RuntimeError: Engine core initialization failed. See root cause above.", ELSEWHERE),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", ELSEWHERE),
        ("recv: Connection reset by peer", ELSEWHERE),
        ("EI0002: The wait execution of the Notify register times out.", ELSEWHERE),
        ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", VAGUE),
        ("RuntimeError: TransferEngine initialization failed with ret_value: -1", VAGUE),
        ("RuntimeError: ACL stream synchronize failed, error code:107020", VAGUE),
        ("Warning: using GPU 0 to perform barrier as devices used by this process are currently unknown", HARMLESS),
        ("[W] The client socket cannot be initialized (errno: 97 - Address family not supported).", HARMLESS),
    ],
)  # fmt: skip
def test_what_points_elsewhere_names_no_cause(line: str, strength: str) -> None:
    said = find_failure_statement(line)

    assert said is not None
    assert (said.row.strength, said.row.cause) == (strength, None)


@pytest.mark.parametrize(
    "line",
    [
        "[2024-01-01 10:00:00] iter 100/2000 | loss 3.21 | lr 1e-4 | throughput 300 samples/s",
        "Loading checkpoint shards: 100%|##########| 8/8",
        "KeyError: 'label'",
        "ValueError: Expected input batch_size (8) to match target batch_size (4).",
        "val accuracy 0.91, saved best model to out/best.pt",
        "WARNING rollout: sampling target of 30 min exceeded, 1 straggler, honoring tool timeout",
        "INFO evicted 312 cached blocks to make room for request 8841",
        "ERROR failed to resolve reward function of task 12",
    ],
)
def test_ordinary_lines_and_errors_of_the_program_say_nothing(line: str) -> None:
    assert find_failure_statement(line) is None


def test_words_survive_what_pastes_do() -> None:
    whole = "RuntimeError: host not found: Name or service not known"

    for torn in (whole.replace(" ", ""), whole.upper(), whole[: whole.index("known") + 1], "host  not\u00a0found"):
        said = find_failure_statement(torn)
        assert said is not None, torn
        assert said.row.id == "meet.name"


def test_a_phrase_cut_off_too_early_is_not_guessed() -> None:
    phrase = "temporary failure in name resolution"
    left = math.ceil(CUT_SHARE * len(phrase))

    assert find_failure_statement(f"error {phrase[:left]}") is not None
    assert find_failure_statement(f"error {phrase[: left - 1]}") is None
    assert stated("Cuda failure 2 'out of memory'").id == "gpu.oom"


def test_names_of_hosts_are_no_words_of_the_failure() -> None:
    assert (
        find_failure_statement("gpu-a56:25:26 [3] transport/net_ib.cc:1295 NCCL WARN Got completion with status=12")
        is None
    )


def stated(line: str) -> LanguageRow:
    said = find_failure_statement(line)
    assert said is not None
    return said.row


def test_guesses_and_advice_state_nothing() -> None:
    assert find_failure_statement("Workers can fall out of sync if one of them runs out of memory.") is None
    assert find_failure_statement("Possible Cause: 1. The process exited. 2. Packet loss on the link.") is None
    listed = "Worker died. There are some potential root causes. (1) It is killed by SIGKILL by OOM killer."
    assert find_failure_statement(listed) is None
    assert stated("EI0002 上报。可能原因：1. 内存不足 2. 网络不可达").cause is None
    assert without_guesses("It failed, so this usually means OOM") == "It failed,"


def test_the_same_words_mean_another_thing_in_another_situation() -> None:
    line = "RuntimeError: connect to 10.0.0.4 failed: Connection refused"
    start, running = find_failure_statement(line, "start"), find_failure_statement(line, "running")

    assert start is not None
    assert start.row.cause is Cause.NETWORK_CONFIG
    assert running is not None
    assert running.row.strength == ELSEWHERE
    assert find_failure_statement(line) is None


def test_rows_are_sourced_sorted_and_reached() -> None:
    rows = failure_rows()

    assert {subject for row in rows for subject in row.about} == set(_subjects())
    assert [STRENGTHS.index(row.strength) for row in rows] == sorted(STRENGTHS.index(row.strength) for row in rows)
    for row in rows:
        assert row.source
        assert bool(row.cause) == (row.strength in (NAMES, "words")), row.id
        for phrase in row.phrases:
            assert phrase.words == phrase.words.lower(), row.id
            assert phrase.longest in phrase.words


@pytest.mark.parametrize(
    "wrong",
    [
        {"strength": "loud"},
        {"strength": NAMES},
        {"strength": NAMES, "cause": ["gpu-oom", "host-memory"]},
        {"strength": NAMES, "cause": "gpu-oom", "also": "gpu-oom"},
        {"strength": ELSEWHERE, "also": "gpu-oom"},
    ],
)
def test_a_broken_row_is_told(wrong: dict[str, object]) -> None:
    with pytest.raises(KnowledgeError):
        typed_rows("rows.toml", [{"id": "x", "words": ["a"], "source": "s", **wrong}], LanguageRow)


def test_words_of_two_causes_say_which_one_they_name() -> None:
    said = find_failure_statement("RuntimeError: host not found: Name or service not known")

    assert said is not None
    assert (said.row.cause, said.row.also) == (Cause.RENDEZVOUS, Cause.NETWORK_CONFIG)
