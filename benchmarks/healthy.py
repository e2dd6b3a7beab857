"""How often ``unhang run`` speaks up in healthy jobs: every line it prints there but the last two is one too many.

    python -m benchmarks.healthy [--minutes 30] [--kinds NAME…] [--json FILE]

The minutes are shared equally by the kinds of ``healthy_job.py``. An alarm is a verdict of status hang, crash or
unknown, a remark one of status slow; a quiet line says that ranks wait and blames nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

KINDS = (
    "tiny-steps",
    "long-steps",
    "evaluation-on-all",
    "rank0-saves",
    "rank0-evaluates",
    "compiles-with-skew",
    "loader-starts",
)
LAST_WORDS = 2
GRACE_S = 180
"""More than the job's own seconds: start, a last long step, the end."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What ``unhang run`` said about one kind of job."""

    kind: str
    minutes: float
    exit_code: int
    alarms: int
    remarks: int
    quiet_lines: int
    last: tuple[str, ...]
    load: float
    """Processes that wanted a processor at the end: others make these jobs uneven."""
    said: str
    """Everything but the last words, where a verdict was among it."""


def listen(kind: str, seconds: float, ranks: int = 2) -> Heard:
    """Run one healthy job under ``unhang run``."""
    with tempfile.TemporaryDirectory(prefix="healthy-") as folder:
        command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", f"{folder}/run"]
        command += ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [str(Path(__file__).with_name("healthy_job.py")), kind, f"{seconds:.0f}"]
        environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"} | dict(os.environ)
        limit = seconds + GRACE_S
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    alarms = len(re.findall(r"^(?:HANG|CRASH|UNKNOWN)\b", done.stderr, re.MULTILINE))
    remarks = len(re.findall(r"^SLOW\b", done.stderr, re.MULTILINE))
    ours = [line for line in done.stderr.splitlines() if line.startswith("unhang: ")]
    quiet = sum("been waiting" in line for line in ours)
    said = done.stderr if alarms or remarks or done.returncode else ""
    last = tuple(ours[-LAST_WORDS:])
    return Heard(kind, seconds / 60, done.returncode, alarms, remarks, quiet, last, os.getloadavg()[0], said)


def table(heard: list[Heard]) -> str:
    """One row a kind."""
    rows = [f"{'kind':20} {'minutes':>7} {'exit':>4} {'alarms':>6} {'remarks':>7} {'quiet':>5} {'load':>5}  last words"]
    rows += [
        f"{h.kind:20} {h.minutes:7.1f} {h.exit_code:4} {h.alarms:6} {h.remarks:7} {h.quiet_lines:5} {h.load:5.1f}  "
        + " · ".join(line.removeprefix("unhang: ") for line in h.last)
        for h in heard
    ]
    minutes = sum(h.minutes for h in heard)
    alarms, remarks = sum(h.alarms for h in heard), sum(h.remarks for h in heard)
    return "\n".join([*rows, f"healthy: {alarms} alarms, {remarks} remarks in {minutes:g} minutes"])


def listen_to_all(minutes: float, kinds: tuple[str, ...] = KINDS) -> list[Heard]:
    """Every kind in turn; what was said too much is printed at once."""
    heard = []
    for kind in kinds:
        heard.append(listen(kind, minutes * 60 / len(kinds)))
        print(table(heard[-1:]).splitlines()[1], heard[-1].said, sep="\n", flush=True)
    return heard


def main() -> int:
    """Measure and print the table; 1 where a healthy job was called anything else."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=30.0)
    arguments.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    arguments.add_argument("--json", type=Path)
    asked = arguments.parse_args()
    heard = listen_to_all(asked.minutes, tuple(asked.kinds))
    print(f"\n{table(heard)}")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(h) for h in heard], indent=1))
    return int(any(h.alarms or h.remarks or h.exit_code for h in heard))


if __name__ == "__main__":
    raise SystemExit(main())
