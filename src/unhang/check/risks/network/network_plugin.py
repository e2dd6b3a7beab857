"""The fabric needs a plug-in that NCCL would not find.

What happens: NCCL speaks InfiniBand, RoCE and TCP by itself. For EFA or Slingshot it loads ``libnccl-net.so`` (or the
one ``NCCL_NET_PLUGIN`` names), and takes TCP without a word when there is none.

Why it hangs: over TCP a collective takes many times as long, and reaches the limit.

Example: an image without aws-ofi-nccl on p5 instances; one that has only ``libnccl-net-ofi.so`` and no
``NCCL_NET_PLUGIN=ofi``.

Fix: install the plug-in, and put its folder into ``LD_LIBRARY_PATH``.

Certain when: never; a program may load it from elsewhere.

Possible when: such devices are here and no such file is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from unhang.check.network.network import NetworkPlugins
from unhang.check.risks.network.nodes_planned import weight_between_nodes
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware.fabrics import PluginFabric, plugin_fabrics
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.sentences import Text, say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge whether NCCL finds a plug-in for each fabric that is here."""
    result, settings = here.result(NetworkPlugins), here.found(JobEnvironment) or JobEnvironment({})
    gap = could_not(CHECK, say("Which network plug-ins are there"), result)
    if gap is not None:
        yield gap
    severity = weight_between_nodes(here, Severity.SLOWS)
    if result.found is None or severity is None:
        return
    wish = settings.value("NCCL_NET_PLUGIN") or ""
    if wish not in ("", "none") and not result.found.fabrics and not _file(result.found, wish):
        yield _missing(settings.in_force["NCCL_NET_PLUGIN"], result.found)
    for fabric in plugin_fabrics():
        if fabric.name not in result.found.fabrics:
            continue
        file = _file(result.found, wish)
        if file:
            yield PassedCheck(CHECK, say("{fabric} has its plug-in {path}", fabric=fabric.name, path=file))
        else:
            yield _found(fabric, result.found, wish, severity)


def _missing(setting: VariableSetting, plugins: NetworkPlugins) -> Answer:
    return risk(
        CHECK,
        setting.name,
        Cause.NETWORK_CONFIG,
        say("NCCL_NET_PLUGIN={value} names no plug-in that is here; NCCL goes on without", value=setting.value),
        severity=Severity.NOTE,
        because=(say("searched: {count} folders of the loader", count=len(plugins.folders)),),
        evidence=(setting.evidence,),
        remedies=(
            Remedy(
                say("Take NCCL_NET_PLUGIN out, or put the plug-in's folder into LD_LIBRARY_PATH"),
                RemedyKind.ENVIRONMENT,
                Text(""),
                say("none"),
                say("NCCL_DEBUG=INFO prints 'NET/Plugin'"),
                unset=(setting.name,),
            ),
        ),
    )


def _file(plugins: NetworkPlugins, wish: str) -> str:
    """The file NCCL would load; empty for none. A path is believed."""
    if wish == "none":
        return ""
    if "/" in wish:
        return wish
    names = (wish, f"libnccl-net-{wish}.so") if wish else ("libnccl-net.so",)
    return next((path for path in plugins.files if PurePosixPath(path).name in names), "")


def _found(fabric: PluginFabric, plugins: NetworkPlugins, wish: str, severity: Severity) -> Answer:
    other = [path for path in plugins.files if f"-{fabric.suffix}." in path]
    return risk(
        CHECK,
        fabric.name,
        Cause.NETWORK_CONFIG,
        say("NCCL would find no plug-in for {fabric} and talk over TCP", fabric=fabric.name),
        severity=severity,
        because=(_why(wish, other, plugins),),
        remedies=(
            Remedy(
                say("Name the plug-in that is there")
                if other
                else say("Install {plugin} and put its folder into LD_LIBRARY_PATH", plugin=fabric.plugin),
                RemedyKind.ENVIRONMENT if other else RemedyKind.INFRASTRUCTURE,
                say("NCCL_NET_PLUGIN names it by its suffix, or by its path"),
                say("none"),
                say("NCCL_DEBUG=INFO prints 'NET/OFI' or 'Using network'"),
                set={"NCCL_NET_PLUGIN": fabric.suffix} if other else {},
            ),
        ),
    )


def _why(wish: str, other: list[str], plugins: NetworkPlugins) -> Text:
    if wish == "none":
        return say("NCCL_NET_PLUGIN=none switches plug-ins off")
    if other:
        return say("{path} is there, and NCCL does not look for that name by itself", path=other[0])
    return say("no libnccl-net.so in {count} folders of the loader", count=len(plugins.folders))
