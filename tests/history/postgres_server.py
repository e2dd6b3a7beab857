"""A PostgreSQL server for tests: a new cluster of a user that is not root, asked over a Unix socket with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

ROLE, PASSWORD = "owner", "s3cret-of-the-owner"
LIMIT_S = 60


@cache
def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; Debian keeps them away from PATH."""
    named = shutil.which("initdb")
    folders = [Path(named).resolve().parent] if named else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


def missing() -> str:
    """Why there is no server here, or an empty text."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    return "" if programs() is not None else "PostgreSQL's initdb is not here: pg_ctlcluster is not installed"


class PostgresServer:
    """Started when it is made; ``end`` removes it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a path short enough for a socket
        self._numbers = count(1)
        self._user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = ["--username", ROLE, "--pwfile", str(secret), "--auth", "scram-sha-256", "--encoding", "UTF8"]
        self._run("initdb", "-D", str(self._data), *words, "--no-sync", "--no-instructions", "--locale", "C")
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """Until it answers."""
        options = f"-c unix_socket_directories={self.folder} -c listen_addresses='' -c fsync=off -c max_connections=300"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def kill(self) -> None:
        """Without a word to anybody, as a machine that fails."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def end(self) -> None:
        """It is over."""
        if (self._data / "postmaster.pid").exists():
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, role: str = ROLE, password: str = PASSWORD) -> str:
        """How ``role`` reaches ``database``."""
        return f"postgresql://{role}:{password}@/{database}?host={quote(str(self.folder), safe='')}"

    def new_database(self) -> str:
        """Its name."""
        name = f"history{next(self._numbers)}"
        self.sql("postgres", f"CREATE DATABASE {name}")
        return name

    def sql(self, database: str, statement: str) -> list[tuple[object, ...]]:
        """What the owner is answered."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def _run(self, program: str, *words: str) -> None:
        folder = programs()
        assert folder is not None
        as_user = (
            {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        )
        with (self.folder / "said").open("w+b") as said:  # the server keeps it open: a pipe would never end
            done = subprocess.run(
                [folder / program, *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=LIMIT_S,
                check=False,
                **as_user,  # type: ignore[call-overload]
            )
            said.seek(0)
            assert done.returncode == 0, said.read().decode(errors="replace")
