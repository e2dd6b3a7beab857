"""What msgspec raises for content that is not what it should be: text that is no UTF-8 is not among its own errors."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
