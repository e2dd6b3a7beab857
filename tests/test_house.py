"""What ``scripts/house.py`` and ``scripts/trip.py`` measure is what their definitions say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import trip
from scripts.house import HERE, House, docstring_lines, module_at, token_lines

FILES = {
    "pyproject.toml": """\
        [[tool.importlinter.contracts]]
        type = "layers"
        layers = ["watch", "facts", "causes"]
        """,
    "src/unhang/__init__.py": "",
    "src/unhang/causes/__init__.py": "",
    "src/unhang/causes/crash.py": "from unhang.causes import crash_words",
    "src/unhang/causes/crash_words.py": "",
    "src/unhang/facts/__init__.py": "",
    "src/unhang/facts/build.py": "import unhang.facts.parts.camps\nfrom unhang.facts.model import Facts",
    "src/unhang/facts/model.py": "def late():\n    from unhang.watch import tick",
    "src/unhang/facts/parts/__init__.py": "",
    "src/unhang/facts/parts/camps.py": "from unhang.facts import shared\nfrom unhang.facts.parts import ends",
    "src/unhang/facts/parts/ends.py": "if TYPE_CHECKING:\n    from unhang.facts.parts.camps import Camp",
    "src/unhang/facts/shared.py": "from unhang.facts.parts import lists",
    "src/unhang/facts/parts/lists.py": "",
    "src/unhang/watch/__init__.py": "",
    "src/unhang/watch/tick.py": "import unhang.facts.build",
    "packages/unhang-lab/src/unhang_lab/__init__.py": "from unhang.watch import tick",
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return House.at(tmp_path)


def test_rooms_stand_in_the_order_of_the_flow(house: House) -> None:
    assert list(house.rooms()) == ["__init__", "causes", "facts", "watch", "unhang_lab"]


def test_circles_are_those_of_files_wherever_they_import(house: House) -> None:
    assert house.circles == [
        ["unhang.facts.build", "unhang.facts.model", "unhang.watch.tick"],
        ["unhang.facts.parts.camps", "unhang.facts.parts.ends"],
    ]


def test_knots_are_those_of_files_and_folders_side_by_side(house: House) -> None:
    assert house.knots == {
        "unhang": [["facts", "watch"]],
        "unhang.facts": [["parts", "shared"]],
        "unhang.facts.parts": [["camps", "ends"]],
    }


def test_an_arrow_up_goes_to_a_room_that_comes_later(house: House) -> None:
    assert house.arrows_up == [("unhang.facts.model", "unhang.watch.tick")]


def test_who_has_one_importer_counts_where_it_lies_beside_it(house: House) -> None:
    assert house.single_importers == ["unhang.facts.model", "unhang.facts.parts.ends"]


def test_a_line_of_code_is_neither_blank_nor_comment_nor_docstring(tmp_path: Path) -> None:
    path = tmp_path / "room.py"
    path.write_text(
        '"""Say\n\nwhat."""\n\n# why\nLIMIT = 3  # s\n"""Of what."""\ntext = """\na\n"""\n', encoding="utf-8"
    )
    module = module_at(path, tmp_path)

    docs = docstring_lines(module.tree)

    assert docs == {1, 2, 3, 7}
    assert token_lines(module.text) - docs == {6, 8, 9, 10}


def test_a_door_is_a_call_from_one_room_into_another() -> None:
    calls = {
        ("unhang/facts/a.py", "unhang/facts/b.py", "f"),
        ("unhang/facts/a.py", "unhang/causes/c.py", "g"),
        ("unhang/facts/a.py", "unhang/causes/c.py", "h"),
        ("", "unhang/watch/d.py", "main"),
    }

    assert trip.doors(calls) == {("unhang/facts/a.py", "unhang/causes/c.py")}


def test_text_is_found_in_plain_containers_and_behind_objects() -> None:
    class Item:
        __slots__ = ("text",)

    Item.__module__ = "unhang.evidence"
    item = Item()
    item.text = "Tried to allocate 2.37 GiB"

    assert trip.holds([b"2.37 GiB"], trip.MARK)
    assert not trip.holds([item], trip.MARK)
    assert trip.leads_to({"items": (item,)}, trip.MARK)


def test_the_trip_of_a_line_is_printed() -> None:
    words = [sys.executable, str(HERE / "scripts" / "trip.py"), "--only", "line"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)

    printed = dict(line.strip().split("  ", 1) for line in run.stdout.splitlines()[1:])
    assert run.returncode == 0, run.stderr
    assert int(printed["files executed"]) > 100
    assert int(printed["changes of room"]) > 100
    assert "functions in" in printed["handed the text"]
