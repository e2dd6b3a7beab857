"""Every way to seed a draw that is proposed is Python, and draws the same in two processes that share no seed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.facts.marked_source import source_of
from unhang.findings import RemedyKind
from unhang.knowledge.remedies import remedy_rows
from unhang.knowledge.words import text_of
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits_in_file

SETUP = """
import random
import numpy as np
rows = list(range(40))
words = [f"w{n}" for n in range(40)]
"""
TORCH = "import torch\nfrom torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, random_split\n"
PANDAS = "import pandas as pd\ndf = pd.DataFrame({'a': rows})\n"
DATASETS = "from datasets import Dataset\nds = Dataset.from_dict({'a': rows})\n"
DRAWS = {
    # name: (library, set-up, what draws, what shows the outcome)
    "permutation": ("numpy", "", "found = np.random.permutation(9)", ""),
    "shuffle in place": ("numpy", "", "np.random.shuffle(rows)", "rows"),
    "own generator": ("numpy", "rng = np.random.default_rng()\n", "found = rng.permutation(9)", "rng.permutation(9)"),
    "own old generator": ("numpy", "rng = np.random.RandomState()\n", "rng.shuffle(rows)", "rng.permutation(9)"),
    "python's shuffle": ("numpy", "", "random.shuffle(rows)", "rows"),
    "python's sample": ("numpy", "", "found = random.sample(rows, 5)", ""),
    "python's choices": ("numpy", "", "found = random.choices(rows, k=5)", ""),
    "mask of numpy": ("numpy", "data = np.arange(40)\n", "part = data[np.random.rand(len(data)) < 0.5]", ""),
    "mask of uniform": ("numpy", "data = np.arange(40)\n", "part = data[np.random.uniform(0, 1, 40) < 0.5]", ""),
    "filter of python": ("numpy", "", "part = [row for row in rows if random.random() < 0.5]", ""),
    "a set's order": ("numpy", "", "part = list(set(words))[:5]", ""),
    "a set's order, named": ("numpy", "names = list(set(words))\n", "part = names[:5]", ""),
    "mask of torch": ("torch", TORCH, "mask = torch.rand(40) < 0.5\npart = torch.arange(40)[mask]", ""),
    "random_split": ("torch", TORCH, "found = random_split(rows, [30, 10])", "[list(part) for part in found]"),
    "randperm": ("torch", TORCH, "found = torch.randperm(9)", ""),
    "sampler": ("torch", TORCH, "found = RandomSampler(rows)", "list(found)"),
    "subset sampler": ("torch", TORCH, "found = SubsetRandomSampler(rows)", "list(found)"),
    "loader": ("torch", TORCH, "found = DataLoader(rows, shuffle=True)", "[int(row) for row in found]"),
    "data frame": ("pandas", PANDAS, "found = df.sample(frac=0.5)", "list(found.a)"),
    "data frame by count": ("pandas", PANDAS, "found = df.sample(9)", "list(found.a)"),
    "mask of a frame": ("pandas", PANDAS, "mask = np.random.rand(len(df)) < 0.5\npart = df[~mask]", ""),
    "datasets' split": ("datasets", DATASETS, "found = ds.train_test_split(test_size=0.5)", "found['test']['a'][:]"),
    "datasets' shuffle": ("datasets", DATASETS, "found = ds.shuffle()", "found['a'][:]"),
    "webdataset's stage": (
        "webdataset",
        "import webdataset as wds\n",
        "found = wds.shuffle(9)",
        "list(found(iter(rows)))",
    ),
    "scikit-learn's split": (
        "sklearn",
        "from sklearn.model_selection import train_test_split\n",
        "found = train_test_split(rows)",
        "",
    ),
    "scikit-learn's split, dotted": (
        "sklearn",
        "import sklearn.model_selection\n",
        "found = sklearn.model_selection.train_test_split(rows)",
        "",
    ),
}
RUN = """
import json, sys
out = {}
for name, (setup, remedy, shown) in json.load(sys.stdin).items():
    scope = {}
    exec(setup, scope)
    *before, last = remedy.splitlines()
    exec("\\n".join(before), scope)
    try:
        scope["found"] = eval(last, scope)
    except SyntaxError:
        exec(last, scope)
    out[name] = repr(eval(shown or "found", scope))
print(json.dumps(out))
"""


def found_in(name: str) -> UnseededSplit:
    _, setup, drawing, _ = DRAWS[name]
    source, _ = source_of(SETUP + setup + drawing + "\n")
    (found,) = unseeded_splits_in_file(source)
    return found


@pytest.mark.parametrize("name", DRAWS)
def test_the_draw_is_found_and_with_the_seed_it_is_python_and_no_longer_found(name: str) -> None:
    _, setup, _, _ = DRAWS[name]
    found = found_in(name)

    ast.parse(found.with_seed)
    source, _ = source_of(SETUP + setup.replace("rng = ", "old = ") + found.with_seed + "\n")
    assert unseeded_splits_in_file(source) == ()


def test_two_processes_that_share_no_seed_draw_the_same() -> None:
    def run(hash_seed: str) -> dict[str, str]:
        asked = {
            name: (SETUP + setup, found_in(name).with_seed, shown)
            for name, (library, setup, _, shown) in DRAWS.items()
            if find_spec(library) is not None
        }
        run = subprocess.run(
            [sys.executable, "-c", RUN],
            input=json.dumps(asked),
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "HF_DATASETS_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        return dict(json.loads(run.stdout))

    first, second = run("1"), run("2")

    assert len(first) >= 13
    assert first == second


CALL = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*\(")


def calls_in(text: str) -> Iterator[str]:
    for start in CALL.finditer(text):
        depth = 0
        for at in range(start.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if depth == 0:
                yield text[start.start() : at + 1]
                break


def test_what_is_written_as_a_call_in_a_stored_remedy_is_python() -> None:
    calls = [
        (name, call)
        for name, row in remedy_rows().items()
        if row.kind is RemedyKind.CODE
        for call in calls_in(text_of(row.change, {}).template)
    ]

    assert len(calls) > 30
    for name, call in calls:
        try:
            ast.parse(re.sub(r"\{(\w+)\}", r"\1", call))
        except SyntaxError as error:
            raise AssertionError((name, call)) from error


def test_no_stored_remedy_points_at_what_may_not_be_shown() -> None:
    pointing = re.compile(r"\b(sites?|places?|lines?)\b[^.;]*\babove\b")
    changes = {name: text_of(row.change, {}).template for name, row in remedy_rows().items()}

    assert [name for name, change in changes.items() if pointing.search(change)] == []
