"""Which engines there are."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from unhang.errors import MissingExtra
from unhang.evidence.engines.cluster import engine_on
from unhang.evidence.engines.engine import Engine
from unhang.evidence.engines.local import LocalEngine

_CLUSTERS = {"dask": ("distributed", "dask_cluster", "DaskCluster"), "ray": ("ray", "ray_cluster", "RayCluster")}
"""By name: the package that is needed, and our module and class."""


def start_engine(name: str, address: str, paths: Sequence[str]) -> Engine:
    """The engine ``name``, whose workers can read below ``paths``.

    ``address``: of a cluster that is there; empty: one is started on this machine.

    Raises:
        MissingExtra: its library is not installed.
        UsageError: the cluster cannot be reached, or its workers cannot read for us.
    """
    if name not in _CLUSTERS:
        return LocalEngine()
    package, module, kind = _CLUSTERS[name]
    try:
        import_module(package)
    except ImportError as error:
        raise MissingExtra(f"--engine {name} needs {package}", next_step=f"pip install {package}") from error
    cluster = getattr(import_module(f"{__package__}.{module}"), kind)
    return engine_on(cluster(address), paths)
