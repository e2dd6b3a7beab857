"""SSH from every host to every other without a password, as clusters have it that start jobs with mpirun or pdsh."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.watch.nodes.three_hosts import Host, Hosts

LIMIT_S = 20.0
_SERVER = """
Port 22
HostKey {place}/host-key
AuthorizedKeysFile {place}/key.pub
StrictModes no
PidFile none
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
PrintMotd no
"""


def why_not() -> str:
    """Why there can be none here; empty when there can."""
    missing = [name for name in ("sshd", "ssh", "ssh-keygen") if _program(name) is None]
    return f"{', '.join(missing)} not installed (Debian: openssh-server openssh-client)" if missing else ""


@dataclass(frozen=True, slots=True)
class Ssh:
    """``command``: what stands before ``HOST COMMAND``; it asks nothing and remembers nothing."""

    command: Path

    @property
    def environment(self) -> dict[str, str]:
        """For launchers that look for ``ssh`` on the search path or take one from the environment."""
        return {"PDSH_SSH_ARGS_APPEND": "", "OMPI_MCA_plm_rsh_agent": str(self.command), "PDSH_RCMD_TYPE": "ssh"}


def ssh_between(hosts: Hosts, place: Path) -> Ssh:
    """Start a server on every host."""
    place.mkdir(parents=True)
    for name in ("key", "host-key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    (place / "sshd_config").write_text(_SERVER.format(place=place))
    options = f"-i {place / 'key'} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    command = place / "bin" / "ssh"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} "$@"\n')
    command.chmod(0o755)
    made = Ssh(command)
    for host in hosts.all:
        # The server wants a place of its own that nobody can write to.
        start = (
            f"mount -t tmpfs none /run && mkdir /run/sshd && exec {_program('sshd')} -D -e -f {place / 'sshd_config'}"
        )
        host.start(["sh", "-c", start], place / f"sshd-{host.name}.log")
    for host in hosts.all:
        _wait_for(hosts[1], made, host, place)
    return made


def _wait_for(here: Host, ssh: Ssh, there: Host, place: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        done = subprocess.run(
            [*here.enter, str(ssh.command), there.name, "hostname"], capture_output=True, text=True, check=False
        )
        if done.stdout.strip() == there.name:
            return
        assert time.monotonic() < deadline, done.stderr + (place / f"sshd-{there.name}.log").read_text()
        time.sleep(0.2)


def _program(name: str) -> str | None:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin:/bin")
