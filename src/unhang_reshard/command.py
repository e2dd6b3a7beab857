"""``unhang reshard data.csv --to webdataset --ranks 8``: a data set as shards of which every rank gets the same."""

from __future__ import annotations

import json
import os
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from unhang.cli.options import Format, Language
from unhang.errors import UsageError


class TargetFormat(str, Enum):
    """What can be written."""

    WEBDATASET = "webdataset"


class UnevenChoice(str, Enum):
    """What to do with samples that cannot be shared equally."""

    DROP = "drop"
    REPEAT = "repeat"


def reshard(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…", help="CSV, JSON lines, Parquet or shards: a file, a folder, or 'shard-{000..019}.tar'."
        ),
    ],
    ranks: Annotated[str, typer.Option(metavar="N[,N…]", help="World sizes that must divide evenly: 8, or 8,12.")],
    to: Annotated[TargetFormat, typer.Option(help="Format to write.")] = TargetFormat.WEBDATASET,  # noqa: ARG001 - one for now
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder to write; default: SOURCE-shards.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="DataLoader workers of each rank, which must divide evenly too.")
    ] = 4,
    img_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the image path; default: the usual names.")
    ] = None,
    caption_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the caption; default: the usual names.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="C", help="CSV separator; default: detected from the header.")
    ] = None,
    encoding: Annotated[str, typer.Option(metavar="NAME", help="CSV encoding.")] = "utf-8",
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Base folder of relative image paths; default: the current folder, then the file's."
        ),
    ] = None,
    text_only: Annotated[bool, typer.Option("--text-only", help="Samples have no image.")] = False,
    keep_columns: Annotated[bool, typer.Option("--keep-columns", help="Keep all other columns as JSON.")] = False,
    when_uneven: Annotated[
        UnevenChoice, typer.Option(help="Surplus samples: drop them, or repeat a few to fill up.")
    ] = UnevenChoice.DROP,
    per_shard: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of samples in a shard.")] = 10_000,
    strict: Annotated[bool, typer.Option("--strict", help="Write nothing if any sample is unusable.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Discard what an earlier call wrote.")] = False,
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    lang: Language = None,
) -> None:
    """Rewrite a data set as equal shards, so that no rank runs out of batches early.

    Leaves out broken rows and images and lists their lines. If it is killed, the same command resumes and writes the
    same shards, byte for byte.

    Exit codes: 0 written, 2 nothing could be written.

    Examples:
    unhang reshard 'shard-{000..019}.tar' --ranks 8,12 --workers 4 --output even/
    """
    from unhang.cli.output.answer import give_layout
    from unhang.cli.output.progress_bar import ReadingBar
    from unhang.report.language import resolve_language
    from unhang.report.layout.text_layout import width_of
    from unhang_reshard import report
    from unhang_reshard.formats.table_rows import ReadOptions
    from unhang_reshard.reshard import ReshardOptions
    from unhang_reshard.reshard import reshard as write

    if os.name != "posix":
        raise UsageError("unhang reshard works on Linux and macOS only")
    spoken = "en" if form is Format.JSON and not lang else resolve_language(lang)
    order = ReshardOptions(_sizes(ranks), workers, when_uneven.value, per_shard, strict)
    reading = ReadOptions(img_key, caption_key, text_only, keep_columns, separator, encoding, images)
    with ReadingBar(doing="resharding") as bar:
        done = write(source, output or _beside(source[0]), order, reading, again=overwrite, progress=bar.tell)
    if form is Format.JSON:
        sys.stdout.write(json.dumps(report.to_document(done, lang=spoken), ensure_ascii=False, indent=2) + "\n")
    else:
        give_layout(report.reshard_sheet(done, width_of(sys.stdout), spoken), form.value)


def _sizes(words: str) -> tuple[int, ...]:
    sizes = tuple(dict.fromkeys(int(word) if word.strip().isdecimal() else 0 for word in words.split(",")))
    if not all(0 < size <= 1 << 20 for size in sizes):
        raise UsageError(f"--ranks {words!r} is not a list of world sizes", next_step="--ranks 8, or --ranks 8,12")
    return sizes


def _beside(word: str) -> Path:
    """``data.csv`` is written to ``data-shards`` in this folder."""
    name = re.sub(r"[{}*?\[\]]|\.\.", "", Path(word).name.split(".")[0]).strip("-_.") or "data"
    return Path(f"{name}-shards")
