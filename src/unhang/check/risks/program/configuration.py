"""Risks in the planned command and its configuration, and how far both led to the source of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from unhang.check.devices.chosen_cards import ranks_to_start
from unhang.check.environment.environment import Timer, Timers
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Evidence, NotChecked, PassedCheck, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold
from unhang.program.launch.launch import Launch
from unhang.program.program_source import ProgramSource, UntakenBranch
from unhang.program.settings.batch_requirements import batch_requirements
from unhang.program.settings.job_values import JobValue, job_value, value_in_force, world_size_of
from unhang.sentences import Text, first_names

ROWS = RiskRows("configuration")
DEEPSPEED = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
TITAN = ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "pipeline_parallel", "context_parallel")
MEGATRON = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
NEOX = ("pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size")
DEFAULT_BATCH = 8
"""Of TRL, on each rank."""
SLOW_TOKENS_PER_S = threshold("configuration.slow_tokens_per_s")
SLOW_UNDER_STAGE_3 = threshold("configuration.slow_under_stage_3")
LONG_S = threshold("configuration.long_s")
DEFAULT_LIMIT_S = 600.0
MAX_NAMED = 8
MAX_BRANCHES = 3


def batch_arithmetic(here: NodeInspection) -> Iterator[Answer]:
    """Batch sizes that do not multiply: an assertion ends the job; with another file on one node, only some ranks."""
    world = world_size_of(here)
    if world is not None:
        yield from _deepspeed(here, world)
        yield from _torchtitan(here, world)


def _deepspeed(here: NodeInspection, world: int) -> Iterator[Answer]:
    """The batch must be micro batch × accumulation × ranks."""
    found = [value for name in DEEPSPEED if (value := job_value(here, name, kind="deepspeed")) is not None]
    numbers = [value.whole for value in found if value.whole is not None]
    if len(numbers) < len(DEEPSPEED):
        return
    whole, micro, steps = numbers
    product = micro * steps * world
    if product == whole:
        yield ROWS.fine("batch-multiplies", product=product)
        return
    values = {"whole": whole, "micro": micro, "steps": steps, "world": world, "product": product}
    yield ROWS.risk("batch-product", {"name": found[0].name, **values}, evidence=(found[0].evidence,))


def _torchtitan(here: NodeInspection, world: int) -> Iterator[Answer]:
    """The global batch must be a multiple of what the ranks take at once."""
    whole = job_value(here, "training.global_batch_size", kind="torchtitan")
    local = job_value(here, "training.local_batch_size", "training.batch_size", kind="torchtitan")
    if whole is None or local is None or not whole.whole or not local.whole or whole.whole < 0:
        return
    shared = 1
    for name in ("tensor_parallel", "context_parallel", "pipeline_parallel"):
        degree = job_value(here, f"parallelism.{name}_degree", kind="torchtitan")
        shared *= max(1, (degree.whole or 1) if degree is not None else 1)
    taken = local.whole * max(1, world // shared)
    if whole.whole % taken == 0:
        yield ROWS.fine("batch-is-multiple", taken=taken)
        return
    fits = max(1, round(whole.whole / taken)) * taken
    values = {"name": whole.name, "whole": whole.whole, "taken": taken, "fits": fits}
    yield ROWS.risk("batch-no-multiple", values, evidence=(whole.evidence,))


def parallel_degrees(here: NodeInspection) -> Iterator[Answer]:
    """Data × tensor × pipeline × context parallel must be the number of ranks: an assertion ends every rank."""
    world = ranks_to_start(here)
    if world is None:
        return
    for names in ([f"parallelism.{name}_degree" for name in TITAN], MEGATRON, NEOX):
        found = [value for name in names if (value := job_value(here, name)) is not None and value.whole is not None]
        if not found:
            continue
        product = prod(degree for value in found if (degree := value.whole or 1) > 0)
        shard = next((value for value in found if value.name.endswith("data_parallel_shard_degree")), None)
        takes_rest = names in (MEGATRON, NEOX) or shard is None or (shard.whole or -1) < 0
        if world % product == 0 if takes_rest else world == product:
            yield ROWS.fine("degrees", world=world)
        else:
            values = {"name": found[0].name, "product": product, "world": world}
            ways = (ROWS.remedy("divide-ranks", values),) if names in (MEGATRON, NEOX) else None
            yield ROWS.risk("degrees", values, evidence=tuple(value.evidence for value in found), remedies=ways)


def grpo_generations(here: NodeInspection) -> Iterator[Answer]:
    """All answers to one prompt must be in one batch over all ranks, or TRL stops at the start.

    The arithmetic of TRL 1.16 (grpo_config.py; up to 0.17 with world × batch only). A trainer whose own rule could be
    read and worked out is judged by that: :func:`program_batch_requirement`.
    """
    if any(name == "num_generations" for rule in batch_requirements(here) for name, _ in rule.values):
        return
    generations = job_value(here, "num_generations")
    if generations is None or generations.whole is None:
        return
    count = generations.whole
    if count < 2:
        values = {"name": generations.name, "count": count, "fits": "2"}
        yield ROWS.risk("generations-too-few", values, evidence=(generations.evidence,))
        return
    batch = job_value(here, "generation_batch_size")
    if batch is not None and job_value(here, "steps_per_generation") is not None:
        yield ROWS.risk("generations-set-twice", {"name": batch.name}, evidence=(batch.evidence,))
    world = world_size_of(here)
    if world is None:
        return
    of_rank = job_value(here, "per_device_train_batch_size")
    per_device = DEFAULT_BATCH if of_rank is None else (of_rank.whole or DEFAULT_BATCH)
    steps = job_value(here, "steps_per_generation", "gradient_accumulation_steps")
    at_once = per_device * world
    whole = batch.whole if batch is not None and batch.whole else at_once * ((steps.whole or 1) if steps else 1)
    values = {"name": generations.name, "count": count, "whole": whole, "batch": per_device, "world": world}
    if whole % at_once:
        blamed = batch or generations
        values |= {"name": blamed.name, "fits": str(at_once * max(1, round(whole / at_once)))}
        yield ROWS.risk("generations-no-multiple", values, evidence=(blamed.evidence,))
    elif whole % count:
        divisors = [str(number) for number in range(2, min(whole, 64) + 1) if whole % number == 0]
        values |= {"steps": whole // at_once, "fits": ", ".join(divisors[:6])}
        yield ROWS.risk("generations-undivided", values, evidence=(generations.evidence,))
    else:
        yield ROWS.fine("generations", count=count, whole=whole)


def generation_time(here: NodeInspection) -> Iterator[Answer]:
    """Ranks that are done wait in a collective for the longest answer, which may take longer than their limit."""
    length = job_value(here, "max_completion_length", "max_new_tokens") or value_in_force(here, "max_completion_length")
    engine, limits = value_in_force(here, "use_vllm"), _limits(here)
    generates = job_value(here, "num_generations", "predict_with_generate")
    if length is None or length.whole is None or generates is None or not limits:
        return
    if engine is not None and engine.truth:
        yield ROWS.fine("vllm")
        return
    stage = job_value(here, "zero_optimization.stage", kind="deepspeed")
    stage_3 = stage is not None and stage.whole == 3
    speed, limit = SLOW_UNDER_STAGE_3 if stage_3 else SLOW_TOKENS_PER_S, limits[0]
    seconds = length.whole / speed
    values = {"tokens": length.whole, "seconds": seconds, "speed": speed, "limit": limit.seconds, "name": limit.name}
    if seconds <= limit.seconds:
        yield ROWS.fine("generation-time", **values)
        return
    evidence = (length.evidence, limit.evidence, stage.evidence if stage else None)
    yield ROWS.risk(
        "generation-time",
        {**values, "setting": length.name, "fits": int(limit.seconds * speed / 2)},
        because=(ROWS.words("stage-3"),) if stage_3 else (),
        evidence=tuple(one for one in evidence if one is not None),
    )


def _limits(here: NodeInspection) -> Sequence[Timer]:
    """Of collectives once the job trains, the shortest first."""
    return (here.found(Timers) or Timers()).of("collective", "later steps")


def dispatched_batches(here: NodeInspection) -> Iterator[Answer]:
    """Without ``even_batches`` one rank may get a batch more, and waits in a collective that the others never enter."""
    even = job_value(here, "even_batches", "accelerator_config.even_batches", "dataloader_config.even_batches")
    if even is not None and even.truth is False:
        yield ROWS.risk("uneven-batches", {"name": even.name}, evidence=(even.evidence,))


def full_state_dict(here: NodeInspection) -> Iterator[Answer]:
    """Rank 0 gathers and writes the whole model while the others wait: some 10 billion parameters take long."""
    limits = _limits(here)
    limit_s = limits[0].seconds if limits else DEFAULT_LIMIT_S
    if limit_s > LONG_S:
        return
    whole: list[JobValue] = []
    fsdp = job_value(here, "fsdp_config.fsdp_state_dict_type", "fsdp_state_dict_type")
    if fsdp is not None and "FULL" in str(fsdp.value).upper():
        whole.append(fsdp)
    zero = job_value(here, "zero_optimization.stage3_gather_16bit_weights_on_model_save", kind="deepspeed")
    if zero is not None and zero.truth:
        whole.append(zero)
    for value in whole:
        yield ROWS.risk("whole-save", {"name": value.name, "limit": limit_s}, evidence=(value.evidence,))


def launch_followed(here: NodeInspection) -> Iterator[Answer]:
    """What scripts, wrappers and launchers decide only when they run may set a limit, a variable, another program."""
    launch = here.found(Launch) or Launch()
    if not launch.program:
        return
    followed = launch.followed
    for one in followed.not_understood:
        if one.source is None:
            yield ROWS.could_not("way", one.what)
        else:
            place = one.source.path if one.source.line is None else f"{one.source.path}:{one.source.line}"
            yield ROWS.could_not("way-at", one.what, place=place)
    if followed.image:
        yield ROWS.could_not("image", ROWS.words("no-containers"), image=followed.image)
    if followed.place is not None or followed.trail:
        yield PassedCheck("", _way(launch))


def _way(launch: Launch) -> Text:
    """``run.sh → torchrun, 8 processes → train.py``."""
    steps = [*launch.followed.trail, launch.outer if launch.outer != launch.launcher else ""]
    values = {
        "before": "".join(f"{step} → " for step in steps if step),
        "launcher": launch.launcher,
        "count": launch.world_size or launch.processes,
        "program": launch.program.removeprefix("-m "),
    }
    way = ROWS.words("way" if launch.processes is None else "way-of-several", **values)
    folder = launch.followed.folder
    return ROWS.words("way-in-folder", way=way, folder=folder) if folder else way


def program_followed(here: NodeInspection) -> Iterator[Answer]:
    """A launch that was not followed to all of the program's own files: what stands in the others is not known."""
    result = here.result(ProgramSource)
    yield from ROWS.gap("source", result)
    program = result.found
    if program is None:
        return
    gaps = list(_unread(program))
    yield from gaps
    libraries = len(program.libraries)
    read = ROWS.words("files-and-libraries" if libraries else "files", count=len(program.files), libraries=libraries)
    yield PassedCheck("", read) if gaps else ROWS.fine("all-read", read=read)
    if program.unreached:
        yield ROWS.fine("unreached", count=program.unreached)
    if program.left_out:
        yield ROWS.fine("untaken", count=len(program.left_out), why=_why_untaken(program.left_out))


def _unread(program: ProgramSource) -> Iterator[NotChecked]:
    how = "unhang check -- CMD, from the folder and in the environment the job runs in"
    if program.absent:
        yield ROWS.could_not("source", ROWS.words("absent", names=first_names(program.absent, MAX_NAMED)), how)
    if program.libraries_absent:
        yield ROWS.could_not(
            "source", ROWS.words("libraries-absent", names=first_names(program.libraries_absent, MAX_NAMED)), how
        )
    if program.computed:
        yield ROWS.could_not("source", ROWS.words("computed", names=first_names(program.computed, MAX_NAMED)))
    if program.unreadable:
        yield ROWS.could_not("source", ROWS.words("no-python", names=first_names(program.unreadable, MAX_NAMED)))
    if program.not_understood:
        yield ROWS.could_not("source", ROWS.words("arguments", names=first_names(program.not_understood, MAX_NAMED)))
    if program.partly:
        yield ROWS.could_not("source", ROWS.words("too-many", count=len(program.files)))


def _why_untaken(branches: tuple[UntakenBranch, ...]) -> str:
    """The first reasons: the reader checks whether that is the launch that was meant."""
    why = dict.fromkeys(f"{name}={value} ({place})" for one in branches for name, value, place in one.settings)
    return first_names(tuple(why), MAX_BRANCHES)


def program_batch_requirement(here: NodeInspection) -> Iterator[Answer]:
    """The program's own rule about its batches, worked out before it starts: it holds, or the job stops there."""
    for rule in batch_requirements(here):
        formula = "; ".join((f"if {rule.formula}: raise", *rule.where))
        given = ", ".join(f"{name}={value}" for name, value in rule.values)
        values = {"place": f"{rule.path}:{rule.line}", "formula": formula, "values": given}
        if rule.holds:
            yield ROWS.fine("own-rule", **values)
        else:
            yield ROWS.risk(
                "own-rule",
                {**values, "test": rule.formula},
                where=Where(rule.path, rule.line, rule.function),
                evidence=(Evidence(Source(rule.path, rule.line), formula),),
            )


def certain_stop(here: NodeInspection) -> Iterator[Answer]:
    """A ``raise``, an exit or a missing name of a table to which this launch is sure to come."""
    told = {(rule.path, rule.function) for rule in batch_requirements(here) if not rule.holds}
    for one in (here.found(ProgramSource) or ProgramSource()).stops:
        if (one.path, one.function.rpartition(".")[2]) in told:
            continue
        settings = "; ".join(f"{name}={value} ({place})" for name, value, place in one.settings)
        values = {"place": f"{one.path}:{one.line}", "text": one.text, "settings": settings}
        because = [ROWS.words("comes-there", **values)]
        because += [ROWS.words("names-known", known=first_names(one.known, MAX_NAMED))] if one.known else []
        where, evidence = Where(one.path, one.line, one.function), Evidence(Source(one.path, one.line), one.text)
        yield ROWS.risk("certain-stop", values, because=tuple(because), where=where, evidence=(evidence,))


RISKS = (
    *asked_of_a_node(
        "configuration",
        batch_arithmetic,
        parallel_degrees,
        grpo_generations,
        generation_time,
        dispatched_batches,
        full_state_dict,
        launch_followed,
    ),
    *asked_of_a_node("program", program_followed, program_batch_requirement, certain_stop),
)
