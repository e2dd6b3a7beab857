"""Where ranks let NCCL write its lines of the start: in this folder beside their records."""

from __future__ import annotations

NCCL_LOG_FOLDER = "nccl"
