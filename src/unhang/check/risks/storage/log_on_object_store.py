"""The log's address is an object store.

What happens: an object cannot be appended to. TensorBoard keeps the whole log and uploads it again at each flush.

Why it hangs: an upload takes longer as the log grows; the rank that logs is late for every collective, and in the end
later than the limit.

Example: ``dump_folder = "s3://runs/llama3"`` with ``enable_tensorboard = true``; ``logging_dir: gs://runs/tb``.

Fix: log to memory or a local disk and copy from there; ``unhang.BackgroundWriter``.

Certain when: the address says so; how much it costs is measured by ``unhang run`` only.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.wording.log_writing_remedies import log_remedies
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Phase, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.job_paths import path_names
from unhang.program.settings.job_values import JobValue, job_value, job_values
from unhang.sentences import say

CHECK = "configuration"
SCHEMES = ("s3", "s3a", "gs", "gcs", "oss", "cos", "obs", "abfs", "abfss", "az", "wasbs", "hf")
_BASES = ("job.dump_folder", "dump_folder")
"""Folders that hold the log where a switch says that one is written."""
_SWITCHES = ("metrics.enable_tensorboard", "enable_tensorboard")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each address a log goes to."""
    logs = tuple(name.name for name in path_names() if name.use == "logs" and name.where == "argument")
    switch = job_value(here, *_SWITCHES)
    names = (*logs, *_BASES) if switch is not None and switch.truth else logs
    for value in job_values(here, *names):
        scheme, there, _ = str(value.value).partition("://")
        if there and scheme.lower() in SCHEMES:
            yield _finding(value)


def _finding(value: JobValue) -> Answer:
    return risk(
        CHECK,
        value.name,
        Cause.SINGLE_RANK_WORK,
        say(
            "the log goes to {address}: an object cannot be appended to, so each flush writes the whole log again",
            address=value.value,
        ),
        severity=Severity.SLOWS,
        certainty=Certainty.LIKELY,
        phase=Phase.LOG,
        because=(say("a step that logs takes longer the longer the log is"),),
        evidence=(value.evidence,),
        remedies=log_remedies(),
    )
