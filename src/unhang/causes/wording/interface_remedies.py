"""Remedies where ranks cannot reach each other at the addresses they took."""

from __future__ import annotations

from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy


def name_interface_remedy() -> Remedy:
    """For both libraries."""
    return remedy("set-network-interface")


def bisect_setting_remedy() -> Remedy:
    """With real ranks, where nobody knows which one it is."""
    return remedy("bisect-network-setting")
