"""Remedies where ranks cannot reach each other at the addresses they took."""

from __future__ import annotations

from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy


def name_the_interface() -> Remedy:
    """For both libraries."""
    return remedy("name-the-interface-that-connects-the-nodes")


def search_the_setting() -> Remedy:
    """With real ranks, where nobody knows which one it is."""
    return remedy("let-unhang-bisect-find-the-one-setting")
