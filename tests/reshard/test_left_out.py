"""Rows and files nobody would wish for: each is counted with its line, none ends the work."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.reshard.pictures import png, write_table
from unhang.errors import MissingExtra, UnhangError, UsageError
from unhang_reshard.formats.table_rows import ReadOptions
from unhang_reshard.reshard import Resharded, ReshardOptions, reshard

pytest.importorskip("webdataset")
ONE = ReshardOptions((1,), workers=1)


def texts_in(done: Resharded) -> list[str]:
    found = []
    for shard in done.shards:
        with tarfile.open(done.folder / shard.name) as archive:
            found += [archive.extractfile(m).read().decode() for m in archive if m.name.endswith(".txt")]  # type: ignore[union-attr]
    return found


def faults(done: Resharded) -> dict[str, list[int]]:
    return dict(done.survey.firsts)  # type: ignore[arg-type]


def test_every_kind_of_broken_row_is_named_with_its_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "cut.png").write_bytes(png(1)[:-9])
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("<html>not found</html>")
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(200 << 20)
    lines = [
        b"images/0.png",  # 5
        b"images/0.png\ta\tb",
        b"images/0.png\t\xff\xfe",
        b"\tno path",
        b"images/0.png\t  ",
        b"images/none.png\tgone",  # 10
        b"https://example.org/a.jpg\taddress",
        b"pipe.jpg\tpipe",
        b"cut.png\tcut",
        b"empty.jpg\tempty",
        b"text.jpg\thtml",  # 15
        b"huge.jpg\thuge",
        b"images/0.png\ta\0b",
        b"",
        b'images/0.png\t"never closed',
        b"images/1.png\tafter the quote",  # 20
        b'images/2.png\t"two\nlines"',
        b'images/0.png\tinner "quote" stays',
        b"images\ta folder",
    ]
    table = write_table(tmp_path, 3, broken=b"\n".join(lines) + b"\n")

    done = reshard([str(table)], tmp_path / "out", ONE, ReadOptions(images=tmp_path))

    assert faults(done) == {
        "columns": [5, 6],
        "encoding": [7],
        "path": [8],
        "caption": [9],
        "missing": [10],
        "address": [11],
        "no-file": [12, 24],
        "cut-short": [13],
        "empty": [14],
        "no-image": [15],
        "too-large": [16],
        "line": [17],
        "quotes": [19],
    }
    assert texts_in(done) == [
        "picture 0", "picture 1", "picture 2", "after the quote", "two\nlines", 'inner "quote" stays',
    ]  # fmt: skip
    listed = (tmp_path / "out" / "left-out.tsv").read_text().splitlines()
    assert len(listed) == done.survey.left_out == 15
    assert "images/none.png" in next(line for line in listed if line.split("\t")[1] == "10")


def test_a_line_of_a_hundred_megabytes_costs_one_row(tmp_path: Path) -> None:
    table = write_table(tmp_path, 2)
    with table.open("ab") as file:
        file.write(b"images/0.png\t")
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b"\nimages/1.png\tthe last\n")

    done = reshard([str(table)], tmp_path / "out", ONE, ReadOptions(images=tmp_path))

    assert faults(done) == {"line": [4]}
    assert texts_in(done)[-1] == "the last"


@pytest.mark.parametrize(
    ("separator", "encoding"), [(",", "utf-8"), (";", "gb18030"), ("|", "utf-8-sig"), ("\t", "latin-1")]
)
def test_separator_is_found_and_encoding_is_as_named(tmp_path: Path, separator: str, encoding: str) -> None:
    caption = "café" if encoding == "latin-1" else "一只猫"
    (tmp_path / "a.png").write_bytes(png(1))
    table = tmp_path / "data.csv"
    table.write_text(f"image{separator}caption{separator}source\na.png{separator}{caption}{separator}web\n", encoding)

    done = reshard([str(table)], tmp_path / "out", ONE, ReadOptions(encoding=encoding, keep_others=True))

    assert texts_in(done) == [caption]
    with tarfile.open(done.folder / done.shards[0].name) as archive:
        assert json.load(archive.extractfile("000000000.json")) == {"source": "web"}  # type: ignore[arg-type]


def test_json_lines(tmp_path: Path) -> None:
    write_table(tmp_path, 2)
    table = tmp_path / "data.jsonl"
    rows = ['{"image": "images/0.png", "text": "zero"}', "[1]", "{", "[" * 100_000, '{"image": "images/1.png"}', ""]
    table.write_text("\n".join([*rows, '{"image": "images/1.png", "text": 1}']))

    done = reshard([str(table)], tmp_path / "out", ONE, ReadOptions())

    assert faults(done) == {"json": [2, 3, 4], "caption": [5]}
    assert texts_in(done) == ["zero", "1"]


def test_parquet_with_paths_and_with_images_inside(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    write_table(tmp_path, 600)
    (tmp_path / "data").mkdir()
    inside = [{"bytes": png(n) if n != 3 else b"", "path": None} for n in range(600)]
    for name, images in (("0", inside), ("1", [{"bytes": None, "path": f"images/{n}.png"} for n in range(600)])):
        table = arrow.table({"image": images, "caption": [f"{name} {n}" if n != 5 else None for n in range(600)]})
        parquet.write_table(table, tmp_path / "data" / f"{name}.parquet", row_group_size=250)
    (tmp_path / "data" / "2.parquet").write_bytes(b"PAR1 cut short")

    done = reshard([str(tmp_path / "data")], tmp_path / "out", ReshardOptions((2,), 2), ReadOptions(images=tmp_path))

    assert faults(done) == {"path": [4], "caption": [6, 6], "archive": [1]}
    assert done.even.samples == 1197
    assert (
        texts_in(done)
        == [f"{f} {n}" for f in "01" for n in range(600) if n != 5 and (f, n) != ("0", 3)][: done.even.written]
    )


def test_shards_are_taken_over_part_by_part(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        with tarfile.open(
            tmp_path / "in" / f"{number}.tar{'.gz' if number == 1 else ''}", f"w:{'gz' if number == 1 else ''}"
        ) as archive:
            for sample in range(number + 2):
                parts = {"txt": f"{number} {sample}".encode(), "seg.PNG": png(sample)}
                if (number, sample) == (2, 1):
                    del parts["seg.PNG"]
                for ending, data in parts.items():
                    about = tarfile.TarInfo(f"./{sample:04d}.{ending}")
                    about.size = len(data)
                    archive.addfile(about, io.BytesIO(data))
    damaged = tmp_path / "in" / "2.tar"
    damaged.write_bytes(damaged.read_bytes()[: 512 * 13 + 99])  # inside the last sample

    done = reshard([str(tmp_path / "in")], tmp_path / "out", ReshardOptions((2,), 1), ReadOptions())

    assert texts_in(done) == ["0 0", "0 1", "1 0", "1 1", "1 2", "2 0"]
    assert list(faults(done)) == ["incomplete", "archive"]
    with tarfile.open(done.folder / done.shards[0].name) as archive:
        assert archive.getnames()[:2] == ["000000000.seg.png", "000000000.txt"]


def test_a_sample_of_countless_parts_is_not_held(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for number in range(3000):
            name = "0.txt" if number == 0 else f"1.{number}" if number < 2000 else f"{number}.txt"
            about = tarfile.TarInfo(name)
            about.size = 1
            archive.addfile(about, io.BytesIO(b"a"))

    done = reshard([str(tmp_path / "in.tar")], tmp_path / "out", ONE, ReadOptions())

    assert faults(done) == {"too-large": [2]}
    assert done.even.written == 1001


def test_an_image_that_goes_away_meanwhile_is_replaced_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_table(tmp_path, 13)
    from unhang_reshard import reshard as module

    looked = module.survey_source

    def then_lose_one(*arguments: object) -> object:
        found = looked(*arguments)  # type: ignore[arg-type]
        for number in (1, 12):
            (tmp_path / "images" / f"{number}.png").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(module, "survey_source", then_lose_one)
    done = reshard([str(table)], tmp_path / "out", ReshardOptions((2,), 2), ReadOptions())

    texts = texts_in(done)
    assert len(texts) == done.even.written == 12
    assert "picture 1" not in texts
    assert done.changed == 1


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("a\tb\n", {}, "none of the usual columns"),
        ("filepath\ttitle\n", {"image": "photo"}, "no column 'photo'"),
        ("", {}, "no header"),
        ("filepath\ttitle\n", {}, "no sample"),
        ("filepath\ttitle\n", {"encoding": "utf-16"}, "no plain line ends"),
        ("filepath\ttitle\n", {"encoding": "klingon"}, "unknown encoding"),
        ("filepath\ttitle\n", {"separator": "::"}, "one character"),
    ],
)
def test_what_cannot_be_read_at_all_is_a_sentence(tmp_path: Path, text: str, words: dict[str, str], said: str) -> None:
    (tmp_path / "data.csv").write_text(text)

    with pytest.raises(UsageError, match=said):
        reshard([str(tmp_path / "data.csv")], tmp_path / "out", ONE, ReadOptions(**words))  # type: ignore[arg-type]


def test_utf_16_and_compressed_tables_say_what_to_do(tmp_path: Path) -> None:
    for head in (b"\xff\xfef\0", b"\x1f\x8b\x08"):
        (tmp_path / "data.csv").write_bytes(head)
        with pytest.raises(UsageError) as caught:
            reshard([str(tmp_path / "data.csv")], tmp_path / "out", ONE, ReadOptions())
        assert caught.value.next_step


def test_strict_writes_nothing(tmp_path: Path) -> None:
    table = write_table(tmp_path, 4, missing=frozenset({2}))

    with pytest.raises(UsageError, match="1 samples cannot be used"):
        reshard([str(table)], tmp_path / "out", ReshardOptions((1,), 1, strict=True), ReadOptions())
    assert list((tmp_path / "out").glob("*.tar")) == []


def test_a_missing_library_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "webdataset.writer", None)
    with pytest.raises(MissingExtra) as caught:
        reshard([str(write_table(tmp_path, 4))], tmp_path / "out", ONE, ReadOptions())
    assert caught.value.next_step == "pip install webdataset"


def test_a_full_disk_keeps_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unhang_reshard import reshard as module

    table = write_table(tmp_path, 8)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(UnhangError, match="no room in"):
        reshard([str(table)], tmp_path / "out", ReshardOptions((2,), 1), ReadOptions())
    monkeypatch.undo()
    assert reshard([str(table)], tmp_path / "out", ReshardOptions((2,), 1), ReadOptions()).went_on
