"""``unhang bisect [-- CMD…]``: the smallest workaround for a broken transport, its price, and the real repair."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Format, Language, Redact
from unhang.cli.output.notes import note
from unhang.errors import UnhangError

if TYPE_CHECKING:
    from unhang.check.bisect.bisect import BisectResult, BisectTrial


def bisect(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD…]", help="Command you plan to run; only read, not run.")
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(metavar="S", min=1, help="Limit of a single step in seconds; default: 5, with NCCL 30."),
    ] = None,
    total: Annotated[float, typer.Option(metavar="S", min=1, help="Start no new trial after S seconds.")] = 900,
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    lang: Language = None,
    redact: Redact = False,
) -> None:
    """Find the smallest setting that makes collectives work here, and what it costs.

    Tries one setting after another with real ranks, each in its own processes with a time limit. Changes nothing on
    the machine, and recommends nothing if everything works.

    Exit codes: 0 everything works without a setting, 1 something hangs or crawls, 2 bad usage, 3 it could not be tried.

    Examples:
    unhang bisect
    unhang bisect -- torchrun --nproc-per-node 8 train.py
    srun --nodes 2 unhang bisect
    """
    from unhang.check.bisect.bisect_verdict import verdict_of
    from unhang.cli.check import print_check_verdict
    from unhang.cli.output.verdict_output import exit_code

    search = _search(tuple(command or ()), limit, total)
    if search is None:
        note("rank 0 prints the answer")
        raise typer.Exit(0)
    verdict = verdict_of(search, platform.node())
    print_check_verdict(verdict, form, lang, redact=redact)
    raise typer.Exit(exit_code(verdict))


def _search(command: tuple[str, ...], limit: float | None, total: float) -> BisectResult | None:
    """The search; None for a rank that only takes part."""
    from unhang.check.bisect.bisect import Bisection
    from unhang.check.environment.collect_environment import job_variables
    from unhang.check.probe.probe_session import ProbeSession
    from unhang.check.probe.process_location import interfaces_by_network
    from unhang.check.probe_results.collect_probe import probe_arguments
    from unhang.host.inspection_result import NodeInspection
    from unhang.host.machine import Machine
    from unhang.knowledge.job.workarounds import applicable_workarounds, workarounds_to_unset
    from unhang.program.launch.follow_command import follow_command
    from unhang.program.launch.job_environment import find_task
    from unhang.program.launch.planned_job import PlannedJob
    from unhang.program.settings import configuration_files

    machine, plan = follow_command(Machine(), PlannedJob(command))
    _, *words = probe_arguments(NodeInspection(results=dict(configuration_files.collect(machine, plan))))
    words += [] if limit is None else ["--limit", str(limit)]
    told = job_variables(machine, plan)
    with closing(ProbeSession(words, told)) as session:
        task = find_task(os.environ)
        if task is not None and task.rank != 0:
            session.follow()
            return None
        search = Bisection(
            session.ask,
            lambda before: list(
                applicable_workarounds(
                    before.backend, several_nodes=before.several_nodes, interfaces=interfaces_by_network()
                )
            ),
            total,
            lambda before: workarounds_to_unset(before.backend, told),
            _tell,
        ).search()
    _remember(search, told)
    return search


def _remember(search: BisectResult, told: Mapping[str, str]) -> None:
    """Keep what this machine was seen to need for later checks, and no longer what it was seen to do without."""
    from unhang.check.bisect.bisect import needed_settings
    from unhang.history.database import open_history
    from unhang.history.place import history_place
    from unhang.history.run import NeededSetting, day_of

    needed, out = needed_settings(search, told)
    if not needed and not out:
        return
    node, how = platform.node(), f"bisect {day_of(time.time())}"
    try:
        with open_history(history_place(os.environ), to_write=True) as known:
            for name in out:
                known.forget_needed(name, node)
            known.keep_needed(NeededSetting(node, f"{name}={value}", how) for name, value in needed.items())
    except UnhangError as error:
        print(error, file=sys.stderr)


def _tell(trial: BisectTrial) -> None:
    from unhang.check.bisect.bisect_verdict import settings_text

    note(f"{settings_text(trial)}: works" if trial.works else f"{settings_text(trial)}: does not help")
