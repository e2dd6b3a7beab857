"""version-mismatch: a bug or a mismatch of NCCL, CUDA, driver, torch or a library on top of them.

What happens: ranks run different versions, a library was built for another GPU or another torch, or a version has a
known fault that fits what is seen.
Why it hangs: one side fails or takes another way than the others expect.
Example: `Mismatched NCCL version detected : rank 0 version 22703 rank 4 version 22602`.
Fix: one container image on all nodes; a version in which the fault is mended.
Certain when: the library itself names the mismatch.
Possible when: only the version fits a known fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unhang.causes.detector import Answer
from unhang.causes.wording.log_signal import few, lines_signal
from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import first_attempt, quotes, ranks_in, value_of
from unhang.facts.logs.logged_settings import settings_of
from unhang.facts.machine.host_identity import machines_taken_for_one
from unhang.facts.machine.shm_segments import SegmentTrouble, trouble_with
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, Text, say

CAUSE = Cause.VERSION_MISMATCH
_LAUNCHES = {"ncclStrongStreamLaunchKernel", "ncclLaunchKernel", "cudaLaunchKernel", "ncclGroupEndInternal"}


def check(facts: Facts) -> Iterator[Answer]:
    """What libraries say of versions, then what follows from two facts together."""
    for look in (_said_so, _not_built_for_it, _one_machine, _nameless_segment, _blocking_launch):
        answer = look(facts)
        if answer is not None:
            yield answer
            return


def _said_so(facts: Facts) -> Answer | None:
    events = first_attempt(facts.events_of("n.mixver", "cuda.driver", "cuda.noimage", "py.symbol"))
    if not events:
        return None
    first = events[0]
    if first.kind == "n.mixver":
        summary = say(
            "ranks run different versions of NCCL: {first} and {second}",
            first=value_of(first, "a_version"),
            second=value_of(first, "b_version"),
        )
    elif first.kind == "cuda.driver":
        summary = say("the driver of this machine is older than this CUDA needs")
    elif first.kind == "cuda.noimage":
        summary = say("this build holds no code for this GPU")
    else:
        summary = say(
            "a library was built against another version: {symbol} is missing", symbol=value_of(first, "symbol")
        )
    return _found(events, Grade.STATED, summary, "run-one-image-on-all-nodes")


def _not_built_for_it(facts: Facts) -> Answer | None:
    events = first_attempt(facts.events_of("n.maxshm"))
    failed = first_attempt(facts.events_of("n.cuda", "cuda.error"))
    if not events or not failed:
        return None
    return _found(
        (*events, *failed),
        Grade.STATED,
        say(
            "this NCCL's kernels need {need} bytes of shared memory, the GPU offers {offer}",
            need=value_of(events[0], "bytes"),
            offer=value_of(events[0], "limit"),
        ),
        "use-an-nccl-built-for-this-gpu",
        whole=False,
        because=(say("the launch that fails afterwards is of such a kernel: this NCCL was not built for this GPU"),),
    )


def _one_machine(facts: Facts) -> Answer | None:
    found = machines_taken_for_one(facts)
    if found is None:
        return None
    failed = first_attempt(facts.events_of("n.cuda", "ncclerr"))
    return _found(
        failed,
        Grade.STATED,
        say(
            "NCCL takes {first} and {second} for one machine: ranks {a} and {b} exchange over P2P",
            first=found.first_host,
            second=found.second_host,
            a=found.first,
            b=found.second,
        ),
        "give-every-machine-a-name-of-its",
        whole=False,
        because=(say("it tells machines apart by host name and boot id; here both are equal"),),
        evidence=(found.evidence, *quotes(failed)),
    )


def _nameless_segment(facts: Facts) -> Answer | None:
    """NVIDIA/nccl pull request 2059: a handle of CUDA host memory is read as the name of a file in /dev/shm."""
    events = first_attempt(facts.events_of("n.shmseg", "n.shmopen"))
    if not events or trouble_with(events) is not SegmentTrouble.NO_NAME:
        return None
    return _found(
        events,
        Grade.STATED,
        say("NCCL was sent a name of a shared-memory file that is none: its ranks made that memory in different ways"),
        "let-all-ranks-make-shared-memory-in",
        whole=False,
        because=(
            say("a file that was never made is no lack of room: a larger /dev/shm does not help"),
            say("known of NCCL 2.24 and later on machines with a NUMA node without memory"),
        ),
    )


def _blocking_launch(facts: Facts) -> Answer | None:
    setting = settings_of(facts).get("CUDA_LAUNCH_BLOCKING")
    stacks = [e for e in facts.events_of("look.native") if value_of(e, "function") in _LAUNCHES]
    if setting is None or setting.value != "1" or not stacks:
        return None
    return _found(
        stacks,
        Grade.STACK,
        say("CUDA_LAUNCH_BLOCKING=1 makes NCCL's launches wait for each other"),
        "run-without-cuda-launch-blocking",
        because=(say("{ranks:who} {ranks:stands|stand} inside NCCL's launch of a kernel", ranks=ranks_in(stacks)),),
        evidence=(setting.evidence, *quotes(stacks)),
    )


def _found(events: Sequence[LogEvent], grade: Grade, summary: Text, mended_by: str, **parts: Any) -> Answer:
    return lines_signal(CAUSE, grade, summary, events, mended_by, ranks=few(ranks_in(events)), **parts)
