"""With whom a rank is in a blocking send or receive, from the frame of torch's function: Gloo records no partner."""

from __future__ import annotations

import sys
from types import FrameType

_FILE = "/torch/distributed/distributed_c10d.py"
_NAMES = {"send": "dst", "recv": "src"}


def partner_of(frame: FrameType | None) -> int:
    """Global rank of the partner of the call that ``frame`` is in; -1 where it is none, or takes from anybody."""
    if frame is None or not frame.f_code.co_filename.endswith(_FILE):
        return -1
    name = _NAMES.get(frame.f_code.co_name)
    if name is None:
        return -1
    values = frame.f_locals
    partner = values.get(name)
    if partner is None and values.get(f"group_{name}") is not None:
        partner = _global(values.get("group"), values[f"group_{name}"])
    return partner if isinstance(partner, int) and partner >= 0 else -1


def _global(group: object, rank: object) -> object:
    """Torch knows the ranks of a group by a dictionary: nothing is asked of other ranks."""
    try:
        return sys.modules["torch.distributed.distributed_c10d"].get_global_rank(group, rank)
    except Exception:  # noqa: BLE001  whatever it is, the partner is not known
        return None
