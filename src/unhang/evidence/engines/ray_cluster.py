"""Workers of Ray read."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unhang.errors import UsageError, describe_failure
from unhang.evidence.engines.cluster import START_S, Lost
from unhang.evidence.engines.on_worker import WorkerFacts, about_worker, read_task
from unhang.evidence.engines.tasks import ReadTask
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.worker_process import cores

if TYPE_CHECKING:
    from ray import ObjectRef

_FETCH_S: Final = 300.0
"""For the items of one task, which are some MB at most."""
_STORE_BYTES: Final = 256 << 20
"""Of an own cluster, for the items that were not fetched yet."""
_PLACE: Final = "/tmp"  # noqa: S108 - a private folder in it
"""Of an own cluster: the path of a socket may have 107 bytes, of which Ray's name for it takes 70."""


class RayCluster:
    """A cluster of Ray."""

    def __init__(self, address: str) -> None:
        import ray

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
        self._quiet = ExitStack()
        options: dict[str, Any] = {"address": address} if address else self._own()
        # Ray prints what happens to its workers on standard output, where the answer belongs
        self._quiet.enter_context(redirect_stdout(self._quiet.enter_context(Path(os.devnull).open("w"))))  # noqa: SIM115 - closed by the stack
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
        except (OSError, RuntimeError, ValueError) as error:  # also another Python than that of the cluster
            self._quiet.close()
            raise UsageError(
                f"cannot use the Ray cluster at {address or 'this machine'}: {str(error).strip().splitlines()[0]}",
                next_step="ray status --address ADDRESS",
            ) from error
        # what is lost is given again by us, each file alone
        self._read = ray.remote(num_cpus=1, max_retries=0)(read_task)

    def _own(self) -> dict[str, Any]:
        """How a cluster on this machine is started, whose files go with it."""
        folder = tempfile.TemporaryDirectory(prefix="unhang-", dir=_PLACE, ignore_cleanup_errors=True)
        return {
            "address": "local",
            "num_cpus": cores(),
            "object_store_memory": _STORE_BYTES,
            "include_dashboard": False,
            "_temp_dir": self._quiet.enter_context(folder),
        }

    def about(self, paths: Sequence[str]) -> list[WorkerFacts]:
        """Its nodes. Raises UsageError when one does not answer."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        look = ray.remote(num_cpus=0, max_retries=1)(about_worker())
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        asked = [
            look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
                list(paths)
            )
            for node in nodes
        ]
        return [self._answer(node["NodeManagerHostname"], one) for node, one in zip(nodes, asked, strict=True)]

    def _answer(self, host: str, reference: ObjectRef) -> WorkerFacts:
        import ray

        try:
            return WorkerFacts(*ray.get(reference, timeout=START_S))
        except Exception as error:
            raise UsageError(f"the worker {host} does not answer ({describe_failure(error)})") from error

    def workers(self) -> int:
        """How many tasks it reads at the same time: one a processor."""
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, task: ReadTask) -> ObjectRef:
        """Give it one task."""
        reference: ObjectRef = self._read.remote(task)
        return reference

    def next_done(self, running: Collection[ObjectRef], limit_s: float) -> ObjectRef | None:
        """One of ``running`` that is over; None where none is within ``limit_s``."""
        import ray

        done, _ = ray.wait(list(running), num_returns=1, timeout=limit_s, fetch_local=False)
        return next(iter(done), None)

    def result(self, handle: ObjectRef) -> EvidencePart | Lost:
        """What a task that is over gave."""
        import ray
        from ray.exceptions import RayTaskError

        try:
            part: EvidencePart = ray.get(handle, timeout=_FETCH_S)
        except RayTaskError as error:
            return Lost(reason=f"the worker could not read it ({describe_failure(error)})")
        except Exception:  # noqa: BLE001 - its worker, its node or its answer is gone; what Ray raises has no end
            return Lost(deaths=1)
        return part

    def cancel(self, handles: Collection[ObjectRef]) -> None:
        """Nobody wants these any more."""
        import ray

        for handle in handles:
            with suppress(Exception):
                ray.cancel(handle, force=True)

    def close(self) -> None:
        """Leave it; end it, if it was started for us."""
        import ray

        ray.shutdown()
        self._quiet.close()
