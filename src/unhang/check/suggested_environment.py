"""The environment to paste: what stays of the user's variables, what goes, what is added, in the launcher's form."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from unhang.check.risks.variables import FAMILIES
from unhang.findings import Finding, RemedyKind, SuggestedEnvironment
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Launch


def suggest_environment(
    here: NodeInspection, findings: Sequence[Finding], form: str = ""
) -> SuggestedEnvironment | None:
    """The block for this node; None when no finding asks for another environment.

    ``form`` names one of :data:`FORMS`; empty: the one that fits the command. Of two wishes for one variable the more
    severe finding's counts: findings come ranked.
    """
    wishes = [
        remedy
        for finding in findings
        for remedy in finding.remedies[:1]
        if remedy.kind is RemedyKind.ENVIRONMENT and (remedy.set or remedy.unset)
    ]
    if not wishes:
        return None
    unset = tuple(dict.fromkeys(name for remedy in wishes for name in remedy.unset))
    added = {name: value for remedy in reversed(wishes) for name, value in remedy.set.items() if name not in unset}
    kept = {**_of_families(here, unset), **added}
    form = form or _form_of(here)
    without = f"# without: {', '.join(unset)}" if form == "kubernetes" else f"unset {' '.join(unset)}"
    text = "\n".join([*([without] if unset else []), *FORMS[form](kept)])
    return SuggestedEnvironment(kept, unset, form, text)


def _form_of(here: NodeInspection) -> str:
    launch, settings = here.found(Launch) or Launch(), here.found(JobEnvironment) or JobEnvironment({})
    if settings.value("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    return next((name for name in (launch.outer, launch.launcher) if name in FORMS), "export")


def _of_families(here: NodeInspection, unset: Sequence[str]) -> dict[str, str]:
    settings = here.found(JobEnvironment) or JobEnvironment({})
    return {
        name: setting.value
        for name, setting in sorted(settings.in_force.items())
        if name.startswith(FAMILIES) and name not in unset and setting.origin in ("environment", "command")
    }


def _export(kept: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in kept.items()]


def _srun(kept: Mapping[str, str]) -> list[str]:
    pairs = ",".join(["ALL", *(f"{name}={shlex.quote(value)}" for name, value in kept.items())])
    return [f"srun --export={pairs} …"]


def _mpirun(kept: Mapping[str, str]) -> list[str]:
    return [" ".join(["mpirun", *(f"-x {name}={shlex.quote(value)}" for name, value in kept.items()), "…"])]


def _deepspeed(kept: Mapping[str, str]) -> list[str]:
    """DeepSpeed forwards NCCL* and PYTHON* by itself; ``.deepspeed_env`` brings the rest to the other nodes."""
    return ["cat > ~/.deepspeed_env <<EOF", *(f"{name}={value}" for name, value in kept.items()), "EOF"]


def _kubernetes(kept: Mapping[str, str]) -> list[str]:
    entries = [f'  - {{name: {name}, value: "{value}"}}' for name, value in kept.items()]
    return ["env:" if entries else "env: []", *entries]


FORMS: Mapping[str, Callable[[Mapping[str, str]], list[str]]] = {
    "export": _export,
    "srun": _srun,
    "mpirun": _mpirun,
    "deepspeed": _deepspeed,
    "kubernetes": _kubernetes,
}
"""Lines that set variables, by the launcher that takes them."""
