"""No pickle runs anything, and none makes the reader allocate or hang."""

from __future__ import annotations

import contextlib
import os
import pickle
import pickletools
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from unhang.errors import DumpError
from unhang.evidence.pickles import plain_opcodes, safe_unpickle
from unhang.evidence.pickles.safe_unpickle import read_plain

PLAIN: list[Any] = [
    {"a": [1, -1, 255, 256, 65536, -(2**31), 2**40, -(2**63), 1.5, None, True, False, "é", b"raw"]},
    [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [[]], {}, {"k": {"k": {}}}],
    {"x": "y" * 300, "entries": [{"a": 1}] * 1500},
    list(range(3000)),
]


class _Calls:
    def __init__(self, call: Any, *args: Any) -> None:
        self.call, self.args = call, args

    def __reduce__(self) -> Any:
        return self.call, self.args


@pytest.mark.parametrize(
    ("value", "protocol"),
    # up to protocol 2 bytes are written as a call
    [(value, protocol) for value in PLAIN for protocol in range(6) if protocol > 2 or "raw" not in str(value)],
)
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    assert read_plain(pickle.dumps(value, protocol)).value == value


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_call_in_a_pickle_is_refused_by_name_and_never_made(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "ran"
    data = pickle.dumps({"entries": [_Calls(os.system, f"touch {proof}")]}, protocol)
    with pytest.raises(DumpError, match=r"posix\.system|nt\.system"):
        read_plain(data)
    assert not proof.exists()


REFUSED = {
    "GLOBAL": b"\x80\x02cos\nsystem\n.",
    "INST": b"\x80\x02(ios\nsystem\n.",
    "REDUCE": b"\x80\x02)R.",
    "BUILD": b"\x80\x02}}b.",
    "OBJ": b"\x80\x02(o.",
    "NEWOBJ": b"\x80\x02))\x81.",
    "NEWOBJ_EX": b"\x80\x04))}\x92.",
    "EXT1": b"\x80\x02\x82\x01.",
    "EXT2": b"\x80\x02\x83\x01\x00.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "BINPERSID": b"\x80\x02K\x01Q.",
    "PERSID": b"\x80\x02Pabc\n.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "STRING": b"\x80\x02S'a'\n.",
    "BYTEARRAY8": b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "EMPTY_SET": b"\x80\x04\x8f.",
}


@pytest.mark.parametrize("name", REFUSED)
def test_every_other_opcode_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(DumpError, match=name):
        read_plain(REFUSED[name])


def test_only_opcodes_that_build_plain_values_are_carried_out() -> None:
    allowed = {
        op.name for op in pickletools.opcodes if plain_opcodes.ACTIONS[ord(op.code)] is not plain_opcodes._refuse
    }
    forbidden = {
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "BUILD",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "PERSID",
        "BINPERSID",
    }
    assert not allowed & forbidden
    assert not {name for name in allowed if name.startswith("EXT")}


HOSTILE = {
    "a line of megabytes": b"(dp0\nV" + b"a" * 3_000_000 + b"\ns.",
    "a number of thousands of digits": b"(dp0\nL" + b"9" * 100_000 + b"L\ns.",
    "a number that is none": b"Fnever\n.",
    "a slot that is no number": b"}pabc\n.",
    "lists closed without end": b"(l" * 150_000 + b".",
    "a dict of a lone key": b"(Va\nd.",
    "a slot number that would make a table of gigabytes": b"\x80\x02}r\xff\xff\xff\xff.",
    "text that claims to be four gigabytes": b"\x80\x02X\xff\xff\xff\xff.",
    "text that claims to be an exabyte": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x0f.",
    "bytes that claim to be an exabyte": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x0f.",
    "an integer of two gigabytes": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a frame of an exabyte": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x0f}.",
    "lists in lists": b"\x80\x02" + b"](" * 150_000,
    "lists in lists without marks": b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b".",
    "numbers without end": b"\x80\x02" + b"N" * 300_000 + b".",
    "tuples in tuples": b"\x80\x02)" + b"\x85" * 150_000 + b".",
    "a dict keyed by tuples in tuples": b"\x80\x02})" + b"\x85" * 150_000 + b"Ns.",
    "repeated references": b"\x80\x02]q\x00"
    + b"".join(b"](" + b"h" + bytes([n]) * 1 + b"h" + bytes([n]) + b"eq" + bytes([n + 1]) for n in range(200))
    + b".",
    "a list that holds itself": b"\x80\x02]q\x00h\x00a.",
    "stores without end": b"\x80\x02}" + b"".join(b"r" + n.to_bytes(4, "little") for n in range(110_000)) + b".",
    "a value never stored": b"\x80\x02h\x05.",
    "a container never opened": b"\x80\x02e.",
    "a dict filled with a lone key": b"\x80\x02}(K\x01u.",
    "nothing to store": b"\x80\x02q\x00.",
    "nothing at all": b"\x80\x02.",
    "two values": b"\x80\x02NN.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_ends_and_stays_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit in ((plain_opcodes, "MAX_MEMO"), (safe_unpickle, "MAX_STACK"), (safe_unpickle, "_SLICE")):
        monkeypatch.setattr(module, limit, 1 << 16)  # a tenth of the real ones, to be quick
    data = HOSTILE[name]
    tracemalloc.start()
    with contextlib.suppress(DumpError):
        read_plain(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 << 20


def test_a_torn_pickle_gives_every_complete_item() -> None:
    value = {"version": "2.10", "entries": [{"n": n, "m": n} for n in range(50)]}
    data = pickle.dumps(value, 2)
    for cut in range(2, len(data) - 1, 7):
        reading = read_plain(data[:cut])
        assert reading.cut_at == cut
        entries = (reading.value or {}).get("entries", [])
        assert entries == value["entries"][: len(entries)]
