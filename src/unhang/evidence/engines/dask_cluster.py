"""Workers of Dask read (``distributed``)."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unhang.errors import UsageError, describe_failure
from unhang.evidence.engines.cluster import OWN_PYTHON, START_S, Lost
from unhang.evidence.engines.on_worker import WorkerFacts, about_worker, read_task
from unhang.evidence.engines.tasks import ReadTask
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.worker_process import cores

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

_MEET_S: Final = 30.0
_END_S: Final = 10.0
_FETCH_S: Final = 300.0
"""For the items of one task, which are some MB at most."""


class DaskCluster:
    """A scheduler of Dask and its workers."""

    def __init__(self, address: str) -> None:
        from distributed import Client

        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._own = None if address else _own_cluster()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of other versions: about() looks at those that matter
                self._client: Client = Client(
                    self._own or _told_in_file(address), timeout=_MEET_S, set_as_default=False
                )
                with suppress(TimeoutError):
                    self._client.wait_for_workers(1, timeout=START_S)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._end_own()
            raise UsageError(
                f"no Dask scheduler answers at {address or 'this machine'}",
                next_step="dask scheduler, and dask worker ADDRESS; then --engine-address ADDRESS",
            ) from error

    def about(self, paths: Sequence[str]) -> list[WorkerFacts]:
        """Its workers. Raises UsageError when one does not answer."""
        told = self._client.get_versions()["workers"]
        pythons = {address: ".".join(one["host"]["python"].split(".")[:2]) for address, one in told.items()}
        others = [WorkerFacts(address, python, "") for address, python in pythons.items() if python != OWN_PYTHON]
        if others:  # they could not even run what asks
            return others
        look = about_worker()
        asked = {
            address: self._client.submit(look, list(paths), workers=[address], pure=False, retries=1)
            for address in pythons
        }
        return [self._answer(address, future) for address, future in asked.items()]

    def _answer(self, address: str, future: Future) -> WorkerFacts:
        try:
            return WorkerFacts(*future.result(timeout=START_S))
        except Exception as error:
            raise UsageError(f"the worker {address} does not answer ({describe_failure(error)})") from error

    def workers(self) -> int:
        """How many tasks it reads at the same time: one a process, whatever threads that has."""
        return max(1, len(self._client.nthreads()))

    def submit(self, task: ReadTask) -> Future:
        """Give it one task."""
        return self._client.submit(read_task, task, pure=False)

    def next_done(self, running: Collection[Future], limit_s: float) -> Future | None:
        """One of ``running`` that is over; None where none is within ``limit_s``."""
        from distributed import wait

        try:
            with self._client.as_current():
                return next(iter(wait(running, timeout=limit_s, return_when="FIRST_COMPLETED").done))
        except TimeoutError:
            return None

    def result(self, handle: Future) -> EvidencePart | Lost:
        """What a task that is over gave."""
        from distributed import KilledWorker

        try:
            part: EvidencePart = handle.result(timeout=_FETCH_S)
        except KilledWorker as error:
            return Lost(deaths=error.allowed_failures + 1)
        except Exception as error:  # noqa: BLE001 - what a cluster may raise has no end; the others are read
            return Lost(reason=f"the worker could not read it ({describe_failure(error)})")
        handle.release()
        return part

    def cancel(self, handles: Collection[Future]) -> None:
        """Nobody wants these any more."""
        if handles:
            with suppress(Exception):
                self._client.cancel(list(handles))

    def close(self) -> None:
        """Leave it; end it, if it was started for us."""
        with suppress(Exception):
            self._client.close(timeout=_END_S)
        self._end_own()

    def _end_own(self) -> None:
        if self._own is not None:
            with suppress(Exception):
                self._own.close(timeout=_END_S)


def _told_in_file(address: str) -> str:
    """The address that a scheduler wrote into a file (``--scheduler-file``), as it is usual under Slurm."""
    if not address.endswith(".json"):
        return address
    told: str = json.loads(Path(address).read_bytes())["address"]
    return told


def _own_cluster() -> LocalCluster:
    """On the loopback of this machine; a worker that ends is started again, and its task is lost at once."""
    from distributed import LocalCluster

    options: dict[str, Any] = {"n_workers": cores(), "threads_per_worker": 1, "processes": True}
    # without a dashboard it still serves its state, on port 8787, and warns where another cluster does so already
    scheduler = {"allowed_failures": 0, "dashboard_address": "127.0.0.1:0"}
    return LocalCluster(**options, dashboard_address=None, silence_logs=logging.CRITICAL, scheduler_kwargs=scheduler)
