"""What a page of ours may hold inline: its own style and script by their hashes, and data that can never be markup."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any


def policy_hash(content: str) -> str:
    """How a content security policy names ``content``."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def data_block(data: Any) -> str:
    """JSON without any character that could end the element or start markup."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
