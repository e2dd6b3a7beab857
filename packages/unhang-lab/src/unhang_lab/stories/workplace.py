"""Where a story is run: a copy of its folder, with the commands it types, and everything it starts ended at the end."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from unhang.errors import MissingExtra, UnhangError
from unhang.knowledge.tables import read_table
from unhang.watch.job import job_processes
from unhang_lab.stories.patch import apply_patch
from unhang_lab.stories.story import STORY_FILE, Story
from unhang_lab.watched import require_torch

MARK_NAME = "UNHANG_STORY"
POLL_S = 0.05
_MODULES = {
    "python": "",
    "torchrun": "-m torch.distributed.run",
    "accelerate": "-m accelerate.commands.accelerate_cli",
    "deepspeed": "-m deepspeed.launcher.runner",
    "unhang": "-c 'from unhang.cli.main import main; main()'",
}
"""What a story types, as this interpreter runs it: its own scripts may be elsewhere or missing."""


@dataclass(slots=True)
class Workplace:
    """``job``: the copy of the story's folder, in which its commands run. ``root``: all that is written of it."""

    story: Story
    root: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def job(self) -> Path:
        """The copy of the story's folder."""
        return self.root / "job"

    @property
    def mark(self) -> str:
        """The environment entry that every process started here inherits."""
        return f"{MARK_NAME}={self.root}"

    def environment(self) -> dict[str, str]:
        """A CPU job without a network, and the story's own variables."""
        base = {name: value for name, value in os.environ.items() if not name.startswith("UNHANG_")}
        base = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TOKENIZERS_PARALLELISM": "false"} | base
        own = {
            "PATH": f"{self.root / 'bin'}{os.pathsep}{base.get('PATH', os.defpath)}",
            "HF_HOME": str(self.root / "cache"),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NO_COLOR": "1",
            MARK_NAME: str(self.root),
        }
        return base | own | dict(self.story.environment) | dict(self.extra)

    def run(self, words: Sequence[str], *, limit_s: float, folder: Path | None = None) -> tuple[int, str, str]:
        """(exit code, standard output, standard error) of a command.

        Raises:
            UnhangError: it did not end within ``limit_s``.
        """
        with (self.root / "out.txt").open("w+b") as out, (self.root / "err.txt").open("w+b") as err:
            with self.started(words, out.fileno(), err.fileno(), folder=folder) as process:
                try:
                    code = process.wait(limit_s)
                except subprocess.TimeoutExpired:
                    raise UnhangError(f"{shlex.join(words)} did not end within {limit_s:.0f} s") from None
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode("utf-8", "replace"))
        return code, texts[0], texts[1]

    @contextmanager
    def started(
        self, words: Sequence[str], out: int, err: int, *, folder: Path | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A command in a session of its own; on the way out it is asked to end, then ended with all it started."""
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder or self.job,
            env=self.environment(),
            start_new_session=True,
            executable=shutil.which(words[0], path=self.environment()["PATH"]) or words[0],
        )
        try:
            yield process
        finally:
            _ask_to_end(process)
            left = job_processes.kill_marked(self.mark, frozenset({process.pid}))
            with suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
            _reap_orphans()
            if left:
                raise UnhangError(f"processes of the story are left over: {left}")


@contextmanager
def workplace(
    story: Story, root: Path | None = None, *, patched: bool = False, prepared: bool = True
) -> Iterator[Workplace]:
    """A place to run ``story`` in: a folder for temporary files, or ``root``, which is kept and must be empty.

    Args:
        story: what to run.
        root: where; None for a folder that is gone afterwards.
        patched: with ``fixed.patch`` and the environment of the repaired job.
        prepared: with the commands of ``prepare``; without them only what is read needs no more.

    Raises:
        MissingExtra: there is no PyTorch, or a library the story needs is missing.
        UnhangError: a command of ``prepare`` failed.
        UsageError: the patch does not fit.
    """
    _require(story)
    with tempfile.TemporaryDirectory(prefix="story-", ignore_cleanup_errors=True) as temporary:
        place = Workplace(story, (root or Path(temporary)).resolve(), story.fixed.environment if patched else {})
        _lay_out(place)
        if patched:
            apply_patch((story.folder / story.fixed.patch).read_text(encoding="utf-8"), place.job)
        with job_processes.adopting_orphans():
            for words in (*(story.prepare if prepared else ()), *(story.fixed.prepare if patched else ())):
                code, _, said = place.run(words, limit_s=story.limit_s)
                if code != 0:
                    last = (said.strip().splitlines() or [""])[-1]
                    raise UnhangError(f"{shlex.join(words)} ended with exit code {code}: {last}")
            yield place


def _require(story: Story) -> None:
    require_torch()
    missing = _packages([name for name in story.needs if importlib.util.find_spec(name) is None])
    if missing:
        raise MissingExtra(
            f"The story {story.name} runs with {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} "
            "not installed here.",
            next_step=f"pip install {' '.join(missing)}",
        )
    if story.permits and not _works(story.permits, story.folder):
        raise MissingExtra(
            f"The story {story.name} could not be observed: this machine does not permit {shlex.join(story.permits)}.",
            next_step="run it as root, or where users may make namespaces",
        )


def _packages(modules: Sequence[str]) -> list[str]:
    """What pip calls ``modules``: pillow for PIL; where several packages hold one, the first of the table."""
    package_of = {module: name for name, module in reversed(read_table("requirements.toml")["modules"].items())}
    return [package_of.get(module, module) for module in modules]


def _works(words: Sequence[str], folder: Path) -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(words, cwd=folder, capture_output=True, timeout=10.0, check=False).returncode == 0
    return False


def _lay_out(place: Workplace) -> None:
    story = place.story
    place.root.mkdir(parents=True, exist_ok=True)
    told = shutil.ignore_patterns("README*", STORY_FILE, "*.patch", "machine*", "__pycache__", ".*")
    shutil.copytree(story.folder, place.job, ignore=told)
    (place.root / "bin").mkdir()
    for name, arguments in _MODULES.items():
        script = place.root / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n', encoding="utf-8")
        script.chmod(0o700)


def _ask_to_end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10.0)


def _reap_orphans(limit_s: float = 1.0) -> None:
    """Processes that lost their parent became our children; those that have ended are reaped."""
    deadline = time.monotonic() + limit_s
    with suppress(ChildProcessError):
        while time.monotonic() < deadline and os.waitpid(-1, os.WNOHANG)[0]:
            pass
