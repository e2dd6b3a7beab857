"""Remedies where ranks cannot reach each other at the addresses they took."""

from __future__ import annotations

from unhang.findings import Remedy, RemedyKind, say


def name_the_interface() -> Remedy:
    """For both libraries."""
    return Remedy(
        title=say("Name the interface that connects the nodes"),
        kind=RemedyKind.ENVIRONMENT,
        change=say("NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME = the interface with the nodes' addresses (ip -br addr)"),
        cost=say("none"),
        verify=say("the line 'NET/Socket : Using' or 'Bootstrap : Using' shows that interface on every node"),
    )


def search_the_setting() -> Remedy:
    """With real ranks, where nobody knows which one it is."""
    return Remedy(
        title=say("Let unhang bisect find the one setting that is needed"),
        kind=RemedyKind.COLLECT,
        change=say("on all nodes, started as the job is: srun unhang bisect, or torchrun … --no-python unhang bisect"),
        cost=say("a minute or two on idle nodes"),
        verify=say("it names the setting, tried with real ranks, and the repair that makes it unnecessary"),
    )
