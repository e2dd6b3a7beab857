"""What logs tell: waits, counters, bars, words of the network, of which one number or time is varied."""

from __future__ import annotations

import io
from datetime import datetime, timedelta

from tests.knowledge.boundaries.boundary import turns
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import SourceFile
from unhang.evidence.logs import read_log
from unhang.facts.build import build_facts
from unhang.facts.endings.ended_from_outside import ended_from_outside
from unhang.facts.endings.given_up import given_up
from unhang.facts.incident_features import incident_features
from unhang.facts.laggard.work_in_lines import active_during_wait, spanning_work
from unhang.facts.logs.event_timing import is_preparing, timing_of
from unhang.facts.logs.interleaved_progress_bars import interleaved_bars
from unhang.facts.logs.per_rank_counts import unequal_counts
from unhang.facts.machine.known_defect_signs import defect_signs
from unhang.facts.machine.transport_errors import TransportErrors, first_use_stall, transport_errors
from unhang.facts.model import Facts
from unhang.facts.pace.data_wait_share import data_wait_share
from unhang.facts.waiting.timeouts import limit_not_in_force, tiny_limits
from unhang.facts.worlds.role_waits import role_waits
from unhang.findings import Source
from unhang.program.syntax.print_statements import find_print_statement

NOON = datetime(2026, 10, 9, 12)  # noqa: DTZ001 - logs say no zone


def facts_of(*lines: str, **files: str) -> Facts:
    """Of one log, or of several by name."""
    texts = files or {"job.log": "\n".join(lines) + "\n"}
    logs = [read_log(io.BytesIO(text.encode()), source=name) for name, text in texts.items()]
    return build_facts(EvidenceSet(logs=logs))


def timeout(rank: int, position: int = 41, *, limit_s: float = 600, ran_s: float | None = None) -> str:
    """At noon, after a wait as long as its limit."""
    limit, ran = round(1000 * limit_s), round(1000 * (limit_s if ran_s is None else ran_s))
    return (
        f"[rank{rank}]:[E1009 12:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={position}, OpType=ALLREDUCE, NumelIn=12, NumelOut=12, "
        f"Timeout(ms)={limit}) ran for {ran} milliseconds before timing out."
    )


def said(rank: int, text: str, at_s: float) -> str:
    """A line of a rank, so many seconds after noon."""
    moment = NOON + timedelta(seconds=at_s)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z [rank{rank}]: {text}"


@turns("ended_from_outside.silent")
def spoke_to_the_end(silent_s: float) -> object:
    """torchrun is told to end so long after the last line of a rank."""
    moment = NOON + timedelta(seconds=silent_s)
    facts = facts_of(
        said(0, "step 3 loss 2.1", 0),
        f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z W1009 torch/distributed/elastic/agent/server/"
        "api.py:739] Received 15 death signal, shutting down workers",
    )
    ended = ended_from_outside(facts)
    return ended is not None and not ended.may_have_been_stuck


# ---------------------------------------------------------------------------------------------------
# one rank works while the others wait


def worked(at_s: float) -> object:
    """Rank 0 writes a line so long after noon, when the others give up after 600 s."""
    lines = (said(0, "step 2 loss 3.0", -3600), said(0, "writing the samples", at_s))
    waits = [f"2026-10-09T12:00:00.000Z {timeout(rank)}" for rank in (1, 2, 3)]
    return active_during_wait(facts_of(*sorted((*lines, *waits), key=lambda line: line[:24]))) is not None


@turns("work_in_lines.into_it")
def a_line_early_in_the_wait(share: float) -> object:
    return worked(-600 + 600 * share)


@turns("work_in_lines.slack_s")
def a_line_after_the_wait(seconds: float) -> object:
    return worked(seconds)


def spans(elapsed_s: float) -> object:
    minutes, seconds = divmod(round(elapsed_s), 60)
    bar = f"Map:   9%|#  | 280000/2969526 [{minutes}:{seconds:02d}<4:48:08, 155.57 examples/s]"
    return spanning_work(facts_of(bar, *(timeout(rank, 2, limit_s=1800) for rank in (1, 2, 3)))) is not None


@turns("work_in_lines.early_s")
def a_bar_shorter_than_the_limit(seconds: float) -> object:
    return spans(1800 - seconds)


@turns("work_in_lines.late")
def a_bar_longer_than_the_limit(times: float) -> object:
    return spans(1800 * times)


@turns("work_in_lines.side_by_side", 64, 65)
def the_same_bar_again(lines: int) -> object:
    bar = "Map:   9%|#  | 280000/2969526 [29:55<4:48:08, 155.57 examples/s]"
    between = [f"some other words {'abc'[number % 3]}" for number in range(lines - 1)]
    waits = [timeout(rank, 2, limit_s=1800) for rank in (1, 2, 3)]
    return spanning_work(facts_of(bar, *between, bar, *waits)) is not None


# ---------------------------------------------------------------------------------------------------
# limits


@turns("timeouts.tiny_limit_s")
def a_tiny_limit(seconds: float) -> object:
    return tiny_limits(facts_of(timeout(1, limit_s=seconds))) is not None


@turns("timeouts.stuck_s", 300, 301)
def stuck_far_beyond_a_tiny_limit(seconds: float) -> object:
    return tiny_limits(facts_of(timeout(1, limit_s=1, ran_s=seconds))) is not None


@turns("timeouts.same")
def a_limit_that_was_set(ratio: float) -> object:
    return limit_not_in_force(facts_of(f"--ddp_timeout {round(600 * ratio)}", timeout(1))) is not None


# ---------------------------------------------------------------------------------------------------
# how far the job had come

ERROR = "n1:10:110 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4000> with error 12, opcode 0, len 0"


def stage(*lines: str) -> object:
    facts = facts_of(*lines, ERROR)
    return timing_of(facts, facts.events_of("n.ibwc")[0])


@turns("event_timing.steps_a_second", 10000, 10001)
def a_bar_without_a_name(a_second: int) -> object:
    (bar,) = facts_of(f"100%|####| {a_second}/{a_second} [00:01<00:00, {a_second}.00it/s]").logs[0].progress
    return is_preparing(bar)


@turns("event_timing.ran_steps")
def one_line_of_a_step(step: int) -> object:
    return stage(f"step {step} loss 2.0")


@turns("event_timing.ran_positions", 200, 201)
def timed_out_at(position: int) -> object:
    return stage(timeout(1, position))


@turns("known_defect_signs.start_positions", 20, 21)
def stalled_at_start(position: int) -> object:
    return defect_signs(facts_of(timeout(1, position)))


@turns("transport_errors.first_positions", 100, 101)
def stalled_at_first_use(position: int) -> object:
    start = "n{host}:10:110 [0] NCCL INFO comm 0x55d{rank} rank {rank} nranks 2 cudaDev 0 busId 7000 - Init START"
    hosts = [start.format(host=rank + 1, rank=rank) for rank in (0, 1)]
    network = "n1:10:110 [0] NCCL INFO Using network AWS Libfabric"
    waits = [timeout(rank, position) for rank in (0, 1)]
    return first_use_stall(facts_of(network, *hosts, *waits)) is not None


@turns("progress_from_logs.far_apart", 4096, 4097)
def positions_of_one_group(apart: int) -> object:
    return len(facts_of(timeout(0, 41), timeout(1, 41 + apart)).groups["0"].progress)


# ---------------------------------------------------------------------------------------------------
# counters of several ranks


def stopped(*ends: tuple[int, float]) -> object:
    """Each rank's last step, and how many seconds before noon it was."""
    files = {}
    for rank, (last, at_s) in enumerate(ends):
        lines = (said(rank, f"step {step} loss 2.0", at_s - last + step) for step in range(last - 5, last + 1))
        files[f"rank{rank}.log"] = "\n".join(lines) + "\n"
    return unequal_counts(facts_of(**files)) is not None


@turns("per_rank_counts.lockstep", 1, 2)
def steps_apart(steps: int) -> object:
    return stopped((40, 0.0), (40 + steps, 0.0))


@turns("per_rank_counts.same_moment_s")
def stopped_apart_in_time(seconds: float) -> object:
    return stopped((40, 0.0), (50, seconds))


@turns("per_rank_counts.near")
def loaders_of_other_lengths(ratio: float) -> object:
    lengths = (1000, round(1000 * ratio))
    lines = (f"[rank{rank}]: len(train_loader) = {length}" for rank, length in enumerate(lengths))
    return unequal_counts(facts_of(*lines)) is not None


@turns("interleaved_progress_bars.telling_letters")
def a_torn_label(letters: int) -> object:
    bar = "{label}: 9%|#   | {n}/{total} [00:01<00:02, 9.00it/s]"
    whole = "Training set"
    steps = [(whole, 1, 3), (whole, 1, 5), (whole, 2, 3), (whole, 2, 5), (whole[-letters:], 3, 3), (whole, 3, 5)]
    text = "\n".join(bar.format(label=label, n=n, total=total) for label, n, total in steps)
    found = interleaved_bars([read_log(io.BytesIO(text.encode() + b"\n"), source="job.log")])
    return found is not None and found.one_is_done


@turns("print_statements.min_constant")
def few_constant_letters(letters: int) -> object:
    words = "abcdefghijklmnop"[:letters]
    program = f'print(f"{words} {{x}}")\n'
    return find_print_statement(f"{words} 7", {"t.py": SourceFile(Source("t.py"), "t.py", program)}) is not None


# ---------------------------------------------------------------------------------------------------
# words of the network


def trouble(world: int, speakers: int) -> TransportErrors:
    start = f"n1:10:110 [0] NCCL INFO comm 0x55d0 rank 0 nranks {world} cudaDev 0 busId 7000 - Init START"
    quiet = f"[rank{world - 1}]: step 3 loss 2.0"
    found = transport_errors(facts_of(start, quiet, *(f"[rank{rank}]: {ERROR}" for rank in range(speakers))))
    assert found is not None
    return found


@turns("transport_errors.few")
def few_of_many_speak(share: float) -> object:
    return trouble(1000, round(1000 * share)).few_of_many


@turns("transport_errors.many_ranks")
def one_of_many_speaks(world: int) -> object:
    return trouble(world, 1).few_of_many


@turns("transport_errors.min_speakers")
def name_one_peer(speakers: int) -> object:
    return trouble(100, speakers).one_peer


# ---------------------------------------------------------------------------------------------------
# steps that wait for their data, cards that are busy


def waiting(waits: list[float], compute_s: float = 1.0) -> object:
    lines = (f"Epoch: [0][{n}/5005] Time {w + compute_s:.3f} Data {w:.3f} Loss 6.9" for n, w in enumerate(waits, 1))
    return data_wait_share(facts_of(*lines)) is not None


@turns("data_wait_share.min_steps")
def steps_that_wait(steps: int) -> object:
    return waiting([0.0, *[9.0] * steps])


@turns("data_wait_share.min_waits")
def long_waits(waits: int) -> object:
    return waiting([0.0, *[90.0] * waits, *[0.0] * 40])


@turns("data_wait_share.min_share")
def share_of_waits(share: float) -> object:
    waits = [0.0] * 16 + [0.0, *[100.0] * 16]
    computed = 1600 * (1 - share) / share / len(waits[1:]) if share < 1 else 0.0
    return waiting(waits, computed)


@turns("incident_features.busy")
def a_busy_card(percent: int) -> object:
    row = f"| 33%   54C    P2            81W /  450W |    1412MiB / 24564MiB |    {min(percent, 100)}%      Default |"
    return "look:cards-busy" in incident_features(facts_of(row))


@turns("work_in_lines.half")
def a_bar_that_counts_through_the_timeouts(share: float) -> object:
    clock = f"{int(600 * share) // 60:02d}:{int(600 * share) % 60:02d}"
    bars = (f"Evaluating: {n}0%|#| {n}/10 [{clock}<10:00, 60.00s/it]" for n in (2, 3))
    before, after = bars
    waits = (timeout(rank, 400) for rank in (1, 2, 3))
    work = spanning_work(facts_of(before, *waits, after))
    return work is not None


@turns("given_up.worked_before")
def an_engine_that_worked(before_s: float) -> object:
    """It printed how much it did so long before the check that nobody answered."""
    worked, checked = (f"{NOON + timedelta(seconds=at):%Y-%m-%d %H:%M:%S},000" for at in (-before_s, 0))
    replica = "Replica(id='r1', deployment='LLM', app='default')"
    facts = facts_of(
        f"(ServeReplica:default:LLM pid=7) INFO {worked} generated 4096 tokens",
        f"(ServeController pid=1) WARNING {checked} controller 1 -- Didn't receive health check response for replica "
        f"{replica} after 10.0s, marking it unhealthy.",
        f"(ServeController pid=1) WARNING {checked} -- Replica {replica} failed health check, stopping it.",
    )
    found = given_up(facts)
    return found is not None and found.worked is not None


@turns("role_waits.last_words")
def a_wait_in_the_last_words(lines: int) -> object:
    """The trainer printed so many lines from its wait on."""
    after = [f"12:00:{10 + at} [INFO] one more thing" for at in range(lines - 1)]
    trainer = "\n".join(["12:00:01 [DEBUG] Waiting for training batch to arrive", *after]) + "\n"
    logs = [
        read_log(io.BytesIO(text.encode()), source=f"logs/{name}.log")
        for name, text in (("trainer", trainer), ("orchestrator", "12:00:00 [INFO] Starting\n"))
    ]
    return bool(role_waits(EvidenceSet(logs=logs)))
