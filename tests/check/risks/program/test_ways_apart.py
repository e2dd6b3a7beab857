"""Ranks that part before a collective: small programs, each beside one that looks alike and is safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.risks.program.ways_programs import HEAD, ask, parted
from unhang.findings import Certainty, Severity

RANKS = (
    "import os, torch.distributed as dist\n"
    "def first():\n    return dist.get_rank() == 0\n"
    "def together():\n    if dist.is_initialized():\n        dist.barrier()\n"
)


pytestmark = pytest.mark.usefixtures("in_its_folder")

TRAINER = "import lightning as L\ntrainer = L.Trainer()\n"
WITH_RANKS = "from ranks import first, together\nimport torch, torch.distributed as dist\n"
JOB = (
    "class Job:\n    def __init__(self):\n        self.number = int(os.environ['RANK'])\n"
    "    @property\n    def speaks(self):\n        return self.number <= 0\n"
    "    @property\n    def many(self):\n        return True\njob = Job()\n"
)
LOGGERS = (
    "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    "class Base:\n    def write(self):\n        raise NotImplementedError\n"
    "class Text(Base):\n    def write(self):\n        print(1)\n"
    "class Web(Base):\n    def write(self):\n        if accelerator is not None:\n"
    "            accelerator.wait_for_everyone()\n"
    "def loggers():\n    found: list[Base] = []\n    found.append(Text())\n    found.append(Web())\n    return found\n"
    "def report():\n    for one in loggers() or []:\n        one.write()\n"
)
CHOSEN = "def gather(x):\n    dist.all_gather(x)\n"
WRAPS = (
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    "def wrap(model, several):\n    return DDP(model, broadcast_buffers=True) if several else model\n"
    "def build():\n    return wrap(Net(), True), 1\nmodel, step = build()\n"
    "def score(model):\n    return model(1)\n"
)


@pytest.mark.parametrize(
    ("bad", "good", "certainty"),
    [
        # behind a call in another file
        (
            WITH_RANKS + "def save():\n    together()\nif first():\n    save()\n",
            WITH_RANKS + "def save():\n    together()\nif first():\n    print(1)\nsave()\n",
            Certainty.LIKELY,
        ),
        # the same number on both sides
        (
            WITH_RANKS + "if first():\n    dist.all_reduce(x)\nelse:\n    dist.barrier()\n",
            WITH_RANKS + "if first():\n    print(1)\n    dist.barrier()\nelse:\n    dist.barrier()\n",
            Certainty.LIKELY,
        ),
        # a pair spread over two functions
        (
            WITH_RANKS
            + "def begin():\n    if not first():\n        dist.barrier()\ndef load():\n    begin()\n    work()\n"
            "load()\n",
            WITH_RANKS
            + "def begin():\n    if not first():\n        dist.barrier()\n"
            + "def end():\n    if first():\n        dist.barrier()\n"
            + "def load():\n    begin()\n    work()\n    end()\nload()\n",
            Certainty.LIKELY,
        ),
        # a value that is set on one rank only; and one that a broadcast made equal
        (
            HEAD + "def stop():\n    why = None\n    if dist.get_rank() == 0:\n        why = ask()\n"
            "    if why is not None:\n        dist.barrier()\nstop()\n",
            HEAD + "def stop():\n    why = None\n    if dist.get_rank() == 0:\n        why = ask()\n"
            "    box = [why]\n    dist.broadcast_object_list(box)\n    if box[0] is not None:\n"
            "        dist.barrier()\nstop()\n",
            Certainty.LIKELY,
        ),
        # a return on what only this rank's data say; and on what all gathered
        (
            HEAD + "def mean(x, mask):\n    rows = x[mask.bool()]\n    if rows.numel() == 0:\n        return None\n"
            "    dist.all_reduce(rows)\nmean(a, b)\n",
            HEAD + "def mean(x, mask):\n    count = x[mask.bool()].sum()\n    dist.all_reduce(count)\n"
            "    if count.item() == 0:\n        return None\n    dist.all_reduce(x)\nmean(a, b)\n",
            Certainty.POSSIBLE,
        ),
        # a skipped batch
        (
            HEAD + "model = torch.nn.parallel.DistributedDataParallel(net)\nfor batch in train_loader:\n"
            "    loss = model(batch)\n"
            "    if torch.isnan(loss):\n        continue\n    loss.backward()\n",
            HEAD + "model = torch.nn.parallel.DistributedDataParallel(net)\nfor batch in train_loader:\n"
            "    loss = model(batch)\n"
            "    if torch.isnan(loss):\n        print('nan')\n    loss.backward()\n",
            Certainty.POSSIBLE,
        ),
        # a limit of time that every rank measures itself
        (
            HEAD + "start = time.time()\nfor step in range(9):\n    if time.time() - start > 60:\n        break\n"
            "    dist.barrier()\n",
            HEAD + "start = time.time()\nfor step in range(9):\n    if time.time() - start > 60:\n"
            "        print('slow')\n    dist.barrier()\n",
            Certainty.POSSIBLE,
        ),
        # a file that the first rank writes while the others look
        (
            HEAD
            + "def read(path):\n    if os.path.exists(path):\n        return load(path)\n    if dist.get_rank() == 0:\n"
            "        torch.save(make(), path)\n    dist.barrier()\n    return load(path)\nread('x')\n",
            HEAD + "def read(path):\n    if dist.get_rank() == 0 and not os.path.exists(path):\n"
            "        torch.save(make(), path)\n"
            "    dist.barrier()\n    return load(path)\nread('x')\n",
            Certainty.POSSIBLE,
        ),
        # the Trainer's own save
        (
            TRAINER + "if trainer.is_global_zero:\n    trainer.save_checkpoint('x')\n",
            TRAINER + "trainer.save_checkpoint('x')\nif trainer.is_global_zero:\n    print(1)\n",
            Certainty.LIKELY,
        ),
        # a sharded model's forward, wrapped in a function of its own
        (
            HEAD + "from torch.distributed.fsdp import fully_shard\ndef build():\n    model = Net()\n"
            "    fully_shard(model)\n    return model\n"
            "def check(model):\n    return model(1)\nmodel = build()\nif dist.get_rank() == 0:\n    check(model)\n",
            HEAD + "def build():\n    return Net()\ndef check(model):\n    return model(1)\nmodel = build()\n"
            "if dist.get_rank() == 0:\n    check(model)\ndist.barrier()\n",
            Certainty.LIKELY,
        ),
        # a decorator that lets the first rank in
        (
            HEAD + "@rank_zero_only\ndef save():\n    dist.barrier()\nsave()\n",
            HEAD + "@rank_zero_only\ndef save():\n    print(1)\nsave()\ndist.barrier()\n",
            Certainty.LIKELY,
        ),
        # the parameter a spawned worker gets
        (
            HEAD + "import torch.multiprocessing as mp\ndef run(index, size):\n    if index == 0:\n"
            "        dist.barrier()\nmp.spawn(run, (2,), 2)\n",
            HEAD + "import torch.multiprocessing as mp\ndef run(index, size):\n    if size == 0:\n"
            "        dist.barrier()\nmp.spawn(run, (2,), 2)\n",
            Certainty.LIKELY,
        ),
        # a property that tells the first rank, under a name of the program's own
        (
            HEAD + JOB + "for step in range(9):\n    if job.speaks:\n        if converged():\n            break\n"
            "    dist.barrier()\n",
            HEAD + JOB + "for step in range(9):\n    if job.speaks:\n        if converged():\n            print(1)\n"
            "    if job.many and step > 5:\n        break\n    dist.barrier()\n",
            Certainty.LIKELY,
        ),
        # a file that the first rank makes after the others may have looked; and before a barrier that all meet
        (
            HEAD + "for step in range(9):\n    dist.barrier()\n    if dist.get_rank() == 0:\n        flag.touch()\n"
            "    if flag.exists():\n        break\n",
            HEAD + "for step in range(9):\n    if dist.get_rank() == 0:\n        flag.touch()\n    dist.barrier()\n"
            "    if flag.exists():\n        break\n",
            Certainty.POSSIBLE,
        ),
        # one of several loggers in a list waits for all; their base only names the method
        (
            HEAD + LOGGERS + "if accelerator is None or accelerator.is_main_process:\n    report()\n",
            HEAD + LOGGERS + "report()\nif accelerator is None or accelerator.is_main_process:\n    print(1)\n",
            Certainty.POSSIBLE,
        ),
        # a name that holds the collective on one way, and something harmless on the way that rank 0 goes alone
        (
            HEAD + CHOSEN + "def score(spread):\n    if spread:\n        join = gather\n    else:\n"
            "        join = gather\n        if dist.get_rank() != 0:\n            return\n    join(1)\nscore(flag)\n",
            HEAD + CHOSEN + "def score(spread):\n    if spread:\n        join = gather\n    else:\n"
            "        join = abs\n        if dist.get_rank() != 0:\n            print(1)\n    join(1)\nscore(flag)\n",
            Certainty.LIKELY,
        ),
        # a wrapped model comes out of a function, beside another value
        (
            HEAD + WRAPS + "if dist.get_rank() == 0:\n    score(model)\ndist.destroy_process_group()\n",
            HEAD + WRAPS + "score(model)\nif dist.get_rank() == 0:\n    score(model.module)\ndist.barrier()\n",
            Certainty.POSSIBLE,
        ),
    ],
)
def test_ranks_that_part_and_ranks_that_do_not(bad: str, good: str, certainty: Certainty, tmp_path: Path) -> None:
    found = parted(ask(tmp_path, t=bad, ranks=RANKS))

    assert [one.certainty for one in found] == [certainty]
    assert parted(ask(tmp_path, t=good, ranks=RANKS)) == []


@pytest.mark.parametrize(
    "safe",
    [
        # ends the job instead of stalling it
        HEAD + "if dist.get_rank() == 0:\n    if os.path.exists('x'):\n        raise FileExistsError\ndist.barrier()\n",
        # members of a group, in a call of that group
        HEAD + "group = dist.new_group([0, 1])\nif dist.get_rank() in (0, 1):\n    dist.all_reduce(x, group=group)\n",
        # the number of ranks, and whether there are several, are the same everywhere
        HEAD + "if dist.get_world_size() > 1:\n    dist.barrier()\nif dist.is_initialized():\n    dist.barrier()\n",
        # nothing the launch runs comes there
        HEAD + "def save():\n    if dist.get_rank() == 0:\n        dist.barrier()\nprint(1)\n",
        # a rank that is none
        HEAD + "if lora_rank == 0:\n    print(1)\nif os.environ.get('LOCAL_RANK') is not None:\n    dist.barrier()\n",
        # own function of the same name
        HEAD + "def barrier():\n    print('-----')\nif dist.get_rank() == 0:\n    barrier()\n",
    ],
)
def test_what_only_looks_like_it(safe: str, tmp_path: Path) -> None:
    assert parted(ask(tmp_path, t=safe)) == []


@pytest.mark.parametrize(("flag", "count"), [("", 0), ("--fsdp full_shard", 1), ("--deepspeed z.json", 1)])
def test_a_save_that_gathers_the_model_where_the_command_shards_it(flag: str, count: int, tmp_path: Path) -> None:
    program = "from transformers import Trainer\ntrainer = Trainer()\nif trainer.is_world_process_zero():\n"
    save = "    trainer.save_model('x')\n"

    verdict = ask(tmp_path, f"torchrun --nproc_per_node 2 t.py {flag}", t=program + save)

    assert len(parted(verdict)) == count


TRIES = (
    HEAD + "model = torch.nn.parallel.DistributedDataParallel(net)\nfor batch in rows:\n    try:\n"
    "        loss = model(batch)\n        loss.backward()\n    except {what}:\n        {then}\n"
)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("        if helper.first:\n            decode(rows)\n        helper.send(rows)\n", 1),
        ("        helper.send(rows)\n", 0),
    ],
)
def test_an_error_before_a_collective_of_the_function_that_is_tried(lines: str, count: int, tmp_path: Path) -> None:
    helper = (
        HEAD + "class Helper:\n    @property\n    def first(self):\n        return dist.get_rank() == 0\n"
        "    def send(self, x):\n        if dist.is_initialized():\n            dist.broadcast(x, 0)\n"
        "helper = Helper()\n"
    )
    program = (
        "from kit import helper\ndef decode(x):\n    return x\ndef update(every):\n    for rows in every:\n"
        + lines
        + "for peer in range(9):\n    try:\n        update(peer)\n    except Exception:\n        print('bad')\n"
    )

    found = parted(ask(tmp_path, t=program, kit=helper))

    assert len([one for one in found if "meets an error before" in str(one.summary)]) == count


@pytest.mark.parametrize(
    ("what", "then", "count"),
    [
        ("RuntimeError", "continue", 1),
        ("Exception as error", "print(error)", 1),
        ("RuntimeError", "raise", 0),
        ("KeyboardInterrupt", "pass", 0),
        ("Exception", "os._exit(1)", 0),
    ],
)
def test_an_exception_of_one_rank_that_is_swallowed(what: str, then: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=TRIES.format(what=what, then=then)))) == count


def test_both_ways_and_the_way_of_the_launch_are_told(tmp_path: Path) -> None:
    program = (
        WITH_RANKS
        + "def save():\n    together()\ndef main():\n    if first():\n        save()\n    dist.all_reduce(x)\nmain()\n"
    )

    (found,) = parted(ask(tmp_path, t=program, ranks=RANKS))

    because = " ".join(map(str, found.because))
    assert "main:7 → save:4 → ranks.py:6" in because.replace("t.py", "")
    assert "all_reduce (t.py:8)" in because
    assert "<module>:9 → main" in because
    assert [(one.source.path, one.source.line) for one in found.evidence][:2] == [("t.py", 6), ("t.py", 7)]


PACKED = (
    HEAD + "from torch.utils.data import DataLoader, IterableDataset\nfrom torch.distributed.fsdp import fully_shard\n"
    "class Packed(IterableDataset):\n    def __iter__(self):\n        yield from rows()\n"
    "model = Net()\nfully_shard(model)\ndef loader():\n    return DataLoader(Packed())\n"
)


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        ("for batch in loader():\n    model(batch)\ndist.all_reduce(x)\n", 1),
        ("for at, batch in enumerate(loader()):\n    if at == 9:\n        break\n    model(batch)\n", 0),
        ("for batch in loader():\n    print(batch)\ndist.all_reduce(x)\n", 0),
        ("with Join([model]):\n    for batch in loader():\n        model(batch)\n", 0),
        ("for batch in DataLoader(rows):\n    model(batch)\n", 0),
    ],
)
def test_a_loop_that_each_rank_goes_round_as_often_as_its_data_say(loop: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=PACKED + loop)

    assert len([one for one in verdict.findings if "number of times" in str(one.summary)]) == count


LISTING = (
    "import os, glob\nclass TextDataset:\n    pass\ndef files(path):\n    {how}\n    return found\n"
    "data = TextDataset(files('x'))\nimport torch.distributed\n"
)


@pytest.mark.parametrize(
    ("how", "count"),
    [
        ("found = [os.path.join(path, one) for one in os.listdir(path)]", 1),
        ("found = glob.glob(path + '/*')", 1),
        ("found = sorted(os.listdir(path))", 0),
        ("found = os.listdir(path)\n    found.sort()", 0),
    ],
)
def test_a_folder_that_becomes_data_in_the_order_it_is_listed(how: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=LISTING.format(how=how))

    assert len([one for one in verdict.findings if "does not sort" in str(one.summary)]) == count


WORKERS = (
    HEAD + "import torch.multiprocessing as mp\ndef work(world, rank):\n"
    "    dist.init_process_group('nccl', rank={given}, world_size=world)\n"
    "def start(index, run, node, size):\n    local_rank = index\n    run(size, local_rank)\n"
    "mp.spawn(start, (work, 0, 16), 8)\n"
)


@pytest.mark.parametrize(
    ("given", "nodes", "count"),
    [
        ("int(os.environ['LOCAL_RANK'])", 2, 1),
        ("int(os.environ['RANK'])", 2, 0),
        ("int(os.environ['NODE_RANK']) * 8 + int(os.environ['LOCAL_RANK'])", 2, 0),
        ("int(os.environ['LOCAL_RANK'])", 1, 0),
    ],
)
def test_the_local_rank_given_as_that_of_the_job(given: str, nodes: int, count: int, tmp_path: Path) -> None:
    command = f"torchrun --nnodes {nodes} --nproc_per_node 8 --rdzv_endpoint n0:1 t.py"

    verdict = ask(tmp_path, command, t=WORKERS.format(given=given))

    assert len([one for one in verdict.findings if "local rank as rank" in str(one.summary)]) == count


WAIT = (
    HEAD + "from contextlib import contextmanager\nfrom huggingface_hub import snapshot_download\n"
    "@contextmanager\ndef file_there(path):\n    while not os.path.exists(path):\n        time.sleep(1)\n    yield\n"
    "def fetch():\n    if dist.get_rank() == 0:\n        snapshot_download('m')\n    {wait}\n"
    "{inner}dist.barrier()\nfetch()\n"
)


@pytest.mark.parametrize(
    ("wait", "inner", "words"),
    [
        ("file_there('x')", "    ", ["without `with`", "alone in fetch"]),
        ("with file_there('x'):", "        ", []),
        ("pass", "    ", ["alone in fetch"]),
    ],
)
def test_a_download_before_a_barrier_and_the_wait_that_spares_it(
    wait: str, inner: str, words: list[str], tmp_path: Path
) -> None:
    found = [
        str(f.summary) for f in ask(tmp_path, t=WAIT.format(wait=wait, inner=inner)).findings if f.check == "program"
    ]

    assert len([one for one in found if "alone in" in one or "without `with`" in one]) == len(words)
    assert all(any(word in one for one in found) for word in words)


@pytest.mark.parametrize(
    ("command", "count"),
    [("f'aws s3 cp {source} .'", 1), ("['git', 'clone', source]", 1), ("'nvidia-smi'", 0), ("f'mkdir {source}'", 0)],
)
def test_a_program_of_its_own_that_downloads_before_a_barrier(command: str, count: int, tmp_path: Path) -> None:
    program = (
        HEAD + "import subprocess, datetime\ndist.init_process_group('nccl', timeout=datetime.timedelta(minutes=3))\n"
        f"def fetch(source):\n    line = {command}\n    return subprocess.run(line, shell=True).returncode\n"
        "if dist.get_rank() == 0:\n    if not fetch('x'):\n        raise SystemExit(1)\ndist.barrier()\n"
    )

    found = [one for one in ask(tmp_path, t=program).findings if "run subprocess.run alone" in str(one.summary)]

    assert [one.severity for one in found] == [Severity.SLOWS] * count


@pytest.mark.parametrize(("verb", "count"), [("fit", 1), ("show", 0)])
def test_a_module_that_a_console_script_starts_by_name(verb: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kit"\n[project.scripts]\nkit = "kit.cli:main"\n')
    files = {
        "__init__.py": "",
        "cli/__init__.py": (
            "import subprocess, sys\nTABLE = {'fit': 'kit.fit', 'show': 'kit.show'}\n"
            'def main():\n    subprocess.run([sys.executable, "-m", TABLE[sys.argv[1]]])\n'
        ),
        "fit.py": HEAD + "if dist.get_rank() == 0:\n    dist.barrier()\n",
        "show.py": "print(1)\n",
    }
    for name, text in files.items():
        path = tmp_path / "src/kit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert len(parted(ask(tmp_path, f"uv run kit {verb}"))) == count


def test_names_that_a_package_imports_when_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    lazy = "_table = {'run': '.work'}\ndef __getattr__(name):\n    return import_module(_table[name], __name__)\n"
    (tmp_path / "kit/__init__.py").write_text(lazy)
    (tmp_path / "kit/work.py").write_text(HEAD + "def run():\n    if dist.get_rank() == 0:\n        dist.barrier()\n")

    assert len(parted(ask(tmp_path, t="import kit.work\nfrom kit import run\nrun()\n"))) == 1


def test_a_name_that_may_hold_a_collective_is_no_likely_finding(tmp_path: Path) -> None:
    program = (
        HEAD + CHOSEN + "def score(spread):\n    if spread:\n        join = gather\n    else:\n"
        "        if dist.get_rank() != 0:\n            return\n        join = abs\n    join(1)\nscore(flag)\n"
    )

    assert all(one.certainty is Certainty.POSSIBLE for one in parted(ask(tmp_path, t=program)))


GROUPS = HEAD + "n = int(os.environ['WORLD_SIZE'])\nrank = dist.get_rank()\n"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("first = rank // 2 * 2\nmine = list(range(first, first + 2))\ngroup = dist.new_group(mine)\n", 1),
        ("group = dist.new_group(ranks=[r for r in range(n) if r % 2 == rank % 2])\n", 1),
        ("group = dist.new_group([engine.grid.pp_group[0], engine.grid.pp_group[-1]])\n", 1),
        ("for ranks in pairs:\n    if rank in ranks:\n        group = dist.new_group(ranks)\n", 1),
        ("for ranks in pairs:\n    made = dist.new_group(ranks)\n    if rank in ranks:\n        group = made\n", 0),
        ("for i in range(n // 2):\n    made = dist.new_group(list(range(i * 2, i * 2 + 2)))\n", 0),
        ("group = dist.new_group(mine(rank), use_local_synchronization=True)\n", 0),
        ("if rank in heads:\n    group = dist.new_group(heads)\nelse:\n    dist.new_group(heads)\n", 0),
        ("group = dist.new_group(list(range(n)))\nif rank in heads:\n    dist.all_reduce(x, group=group)\n", 0),
    ],
)
def test_a_group_that_not_all_ranks_make_alike(lines: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, "torchrun --nproc_per_node 4 t.py", t=GROUPS + lines)

    assert len([one for one in parted(verdict) if "new_group" in str(one.summary)]) == count


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("atexit.register(dist.destroy_process_group)\ntrain()\n", 1),
        ("@atexit.register\ndef end():\n    dist.destroy_process_group()\ntrain()\n", 1),
        ("def end():\n    dist.destroy_process_group()\ntry:\n    train()\nfinally:\n    end()\n", 1),
        ("train()\ndist.destroy_process_group()\n", 0),
        ("def hook(*error):\n    os._exit(1)\nsys.excepthook = hook\natexit.register(dist.destroy_process_group)\n", 0),
        (
            "try:\n    train()\nexcept Exception:\n    os._exit(1)\nfinally:\n    dist.destroy_process_group()\n",
            0,
        ),
        ("try:\n    train()\nfinally:\n    dist.destroy_process_group(small)\n", 0),
        ("atexit.register(print)\ntrain()\n", 0),
    ],
)
def test_a_clean_up_that_waits_after_an_exception(lines: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=HEAD + "import atexit, sys\n" + lines)

    found = [one for one in verdict.findings if "after an exception on one rank" in str(one.summary)]
    assert [one.severity for one in found] == [Severity.NOTE] * count
