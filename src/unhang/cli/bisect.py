"""``unhang bisect [-- CMD…]``: the smallest workaround for a broken transport, its price, and the real repair."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.check import Format

if TYPE_CHECKING:
    from unhang.check.bisect.bisect import Search, Trial


def bisect(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD…]", help="The command you plan to run; it is read, not run."),
    ] = None,
    limit: Annotated[
        float | None, typer.Option(metavar="S", min=1.0, help="Seconds a single step may take; default 5, NCCL 30.")
    ] = None,
    total: Annotated[float, typer.Option(metavar="S", min=1.0, help="Seconds after which nothing new is tried.")] = 900,
    form: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.TEXT,
    lang: Annotated[
        str | None, typer.Option("--lang", help="Language of the sentences; default: the locale's.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Rename users, hosts, addresses and paths for sharing.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show traces of errors.")] = False,  # noqa: ARG001 - see main
) -> None:
    """Find the smallest setting that makes collectives work here, and what it costs.

    Real ranks try settings one after another, each in processes of their own that end at their limit. Nothing is
    changed on the machine. Where everything works, nothing is recommended.

    Exit code: 0 everything works without a setting, 1 something stops or crawls, 2 it could not be tried.
    """
    from unhang.check.bisect.bisect_verdict import verdict_of
    from unhang.cli.check import give
    from unhang.cli.output.verdict_output import exit_code

    search = _search(tuple(command or ()), limit, total)
    if search is None:
        print("unhang: rank 0 gives the answer", file=sys.stderr)
        raise typer.Exit(0)
    verdict = verdict_of(search, platform.node())
    give(verdict, form, lang, redact=redact)
    raise typer.Exit(exit_code(verdict) if search.before is not None else 2)


def _search(command: tuple[str, ...], limit: float | None, total: float) -> Search | None:
    """The search; None for a rank that only takes part."""
    from unhang.check.bisect.bisect import Bisect
    from unhang.check.environment.collect_environment import settings_of
    from unhang.check.probe.network_place import interfaces
    from unhang.check.probe.probe_session import Session
    from unhang.check.probe_results.collect_probe import arguments
    from unhang.host.look import Situation
    from unhang.host.machine import Machine
    from unhang.knowledge.job.workarounds import set_already, to_try
    from unhang.program.launch.follow_command import followed
    from unhang.program.launch.job_environment import task_of
    from unhang.program.launch.planned_job import Plan
    from unhang.program.settings import configuration_files

    machine, plan = followed(Machine(), Plan(command))
    _, *words = arguments(Situation(looks=dict(configuration_files.look(machine, plan))))
    words += [] if limit is None else ["--limit", str(limit)]
    told = settings_of(machine, plan)
    with closing(Session(words, told)) as session:
        task = task_of(os.environ)
        if task is not None and task.rank != 0:
            session.follow()
            return None
        return Bisect(
            session.ask,
            lambda before: list(to_try(before.backend, several_nodes=before.several_nodes, interfaces=interfaces())),
            total,
            lambda before: set_already(before.backend, told),
            _tell,
        ).search()


def _tell(trial: Trial) -> None:
    from unhang.check.bisect.bisect_verdict import written

    print(f"unhang: {written(trial)}: {'works' if trial.works else 'does not help'}", file=sys.stderr, flush=True)
