"""A Slurm of its own on the hosts: its controller on h1, a node daemon on each. Nothing of it outlives the hosts."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.watch.nodes.three_hosts import Host, Hosts

LIMIT_S = 30.0
_SLURM = ("slurmctld", "slurmd", "srun", "sbatch")
_CONFIGURATION = """
ClusterName=three
SlurmctldHost=h1(10.92.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
KillWait=3
SlurmdTimeout=300
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why there can be no Slurm here; empty when there can."""
    missing = [name for name in _SLURM if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client)" if missing else ""


@dataclass(frozen=True, slots=True)
class Slurm:
    """A running Slurm; commands are given on h1."""

    hosts: Hosts
    place: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its commands need."""
        return {"SLURM_CONF": str(self.place / "slurm.conf")}

    def start(self, words: list[str], log: Path, *, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        """``srun …`` or ``sbatch …`` on h1."""
        return self.hosts[1].start(words, log, environment=self.environment, cwd=cwd)

    def asked(self, *words: str) -> str:
        """What a command of Slurm answers."""
        done = subprocess.run(
            [*self.hosts[1].enter, *words], env={**os.environ, **self.environment}, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr


def slurm(hosts: Hosts, place: Path) -> Slurm:
    """Start it, and wait until every node takes work."""
    (place / "state").mkdir(parents=True)
    nodes = "\n".join(f"NodeName={h.name} NodeAddr={h.address} CPUs={os.cpu_count()} State=UNKNOWN" for h in hosts.all)
    names = ",".join(host.name for host in hosts.all)
    (place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (place / "slurm.conf").write_text(_CONFIGURATION.format(place=place, nodes=nodes, names=names))
    made = Slurm(hosts, place)
    _daemon(hosts[1], "slurmctld", made)
    for host in hosts.all:
        (place / f"spool-{host.name}").mkdir()
        # It starts nowhere without a mounted group tree, though nothing here is set to use one.
        subprocess.run([*host.enter, "mount", "-t", "tmpfs", "none", "/sys/fs/cgroup"], check=True)
        _daemon(host, "slurmd", made)
    deadline = time.monotonic() + LIMIT_S
    while made.asked("sinfo", "-h", "-N", "-o", "%T").split() != ["idle"] * len(hosts.all):
        assert time.monotonic() < deadline, made.asked("sinfo", "-R", "-l") + _logs(place)
        time.sleep(0.2)
    return made


def _daemon(host: Host, name: str, made: Slurm) -> None:
    own = ["-N", host.name] if name == "slurmd" else []
    host.start([name, "-D", *own], made.place / f"{name}-{host.name}.out", environment=made.environment)


def _logs(place: Path) -> str:
    return "\n".join(path.read_text(errors="replace")[-2000:] for path in place.glob("*.log"))
