"""What an article, a post or an answer advises is recognised, quoted and judged, for this machine and a job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import unhang
from unhang.check.risks.risk import risk_file
from unhang.host.machine import Machine
from unhang.report.explain.article_advice import Advice, advice_in, passed_on
from unhang.report.explain.article_judgement import judged_for, judged_here
from unhang.report.explain.article_pages import named_causes
from unhang.report.explain.article_sentences import sentences

CHINESE = """\
某项目八卡训练超时的处理

问题现象

训练到一半，所有进程报 NCCL 超时，日志如下：
[rank3]:[E ProcessGroupNCCL.cpp:563] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)

原因分析

由于数据集划分时没有固定随机种子，各进程的 batch 数不同。

解决方案

1. 调用 train_test_split 时传入 seed=7，所有进程相同。
2. 设置环境变量：
   export NCCL_P2P_DISABLE=1
   export NCCL_TIMEOUT=7200
   export NCCL_DEBUG=INFO
3. 适当减小 batch size，或增加梯度累积步数；升级显卡驱动到最新版本。
4. 用 py-spy dump 查看各个进程的调用栈。
5. 不要使用 NCCL_BLOCKING_WAIT=1。
6. 给机房打电话，确认空调开着。
"""

ENGLISH = """\
<html><head><title>x</title><style>p {}</style></head><body>
<h1>Our job hung after the last epoch</h1>
<h2>What happened</h2><p>All ranks timed out in an all_gather. It happens because rank 0 evaluates alone.</p>
<h2>How we fixed it</h2>
<ul><li><p>Let every rank run the evaluation instead of rank 0 only.</p></li>
<li>Raise the timeout with <code>init_process_group(timeout=timedelta(hours=2))</code>.</li>
<li>Set <code>TORCH_NCCL_TRACE_BUFFER_SIZE=2000</code> and use the flight recorder.</li></ul>
<table><tr><td>docker run --shm-size=16g</td><td>more shared memory</td></tr></table>
<p>We also went back to transformers 4.49.0, so pin transformers==4.49.0.</p>
</body></html>
"""

MORE = "- Use the flight recorder.\n- Reduce the batch size.\n"
LOG = "".join(f"[rank{rank}]: step {step} loss 0.{step} NCCL_DEBUG=INFO\n" for step in range(40) for rank in range(4))
QUESTION = "My job hangs in the second epoch.\n" * 3 + "I use eight cards and torchrun. What can I do?\n" * 4


def keys(text: str) -> dict[str, Advice]:
    return {piece.key: piece for piece in advice_in(text)[1]}


def test_each_piece_of_advice_is_recognised_in_chinese() -> None:
    found = keys(CHINESE)

    assert {
        "seed",
        "NCCL_P2P_DISABLE",
        "NCCL_TIMEOUT",
        "NCCL_DEBUG",
        "smaller-batch",
        "release-driver",
        "stacks",
    } <= set(found)
    assert found["NCCL_P2P_DISABLE"].value == "1"
    assert found["seed"].worth == "depends"
    assert found["NCCL_BLOCKING_WAIT"].against
    assert found["NCCL_BLOCKING_WAIT"].worth == "right"
    assert [piece.sentence.text for piece in found.values() if piece.worth == "unknown"] == [
        "给机房打电话，确认空调开着。"
    ]


def test_each_piece_of_advice_is_recognised_in_a_saved_page() -> None:
    found = keys(ENGLISH)

    assert {"evaluate", "longer-limit", "TORCH_NCCL_TRACE_BUFFER_SIZE", "shared-memory", "transformers 4.49.0"} <= set(
        found
    )
    assert not any("<" in piece.sentence.text for piece in found.values())


@pytest.mark.parametrize("text", [LOG, QUESTION, "", "NCCL_P2P_DISABLE=1"])
def test_a_log_and_a_question_are_no_articles(text: str) -> None:
    assert advice_in(text)[1] == ()


def test_what_a_program_printed_and_what_is_said_of_causes_advises_nothing() -> None:
    quoted = [one for one in sentences(CHINESE) if one.quoted]
    lines = [piece.sentence.line for piece in keys(CHINESE).values()]

    assert len(quoted) == 1
    assert min(lines) > CHINESE.splitlines().index("解决方案")


def test_variables_are_judged_as_check_judges_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"NCCL_DEBUG": "INFO"})
    judged = {one.key: one for one in judged_here(advice_in(CHINESE)[1], machine, ())}

    assert judged["NCCL_TIMEOUT"].worth == "no-effect"
    assert judged["NCCL_P2P_DISABLE"].worth == "costs"
    assert judged["NCCL_DEBUG"].worth == "already"
    assert judged["smaller-batch"].worth == "depends"


def test_the_job_decides_what_depends_on_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPLITS, "utf-8")
    (tmp_path / "seeded.py").write_text(SPLITS.replace("test_size=0.1", "test_size=0.1, random_state=1"), "utf-8")
    (tmp_path / "post.md").write_text(CHINESE, "utf-8")
    needed, done = (
        json.loads(
            unhang(
                "explain",
                "post.md",
                "--format",
                "json",
                "--",
                "torchrun",
                "--nproc-per-node",
                "2",
                script,
                folder=tmp_path,
            ).stdout
        )
        for script in ("train.py", "seeded.py")
    )

    assert worth(needed, "seed=7") == "advice: right"
    assert worth(done, "seed=7") == "advice: already"


SPLITS = """\
import torch.distributed as dist
from sklearn.model_selection import train_test_split

dist.init_process_group("gloo")
rows = [row for row in range(1000)]
train, test = train_test_split(rows, test_size=0.1)
for row in train:
    dist.barrier()
"""


def worth(document: dict, words: str) -> str:
    return next(page["kind"] for page in document["pages"] if words in page["title"])


@pytest.mark.parametrize(
    ("lang", "summary", "cause"),
    [("en", "pieces of advice: ", "Cause it names: "), ("zh", " 条建议：", "文中的原因：")],
)
def test_the_summary_comes_first_then_each_piece_in_order(lang: str, summary: str, cause: str) -> None:
    run = unhang("explain", "--lang", lang, "-", standard_input=CHINESE.encode())

    assert run.returncode == 0
    assert summary in run.stdout.splitlines()[1]
    assert cause + "uneven-data" in run.stdout
    places = [run.stdout.index(words) for words in ("seed=7", "NCCL_P2P_DISABLE=1", "NCCL_TIMEOUT=7200", "py-spy dump")]
    assert places == sorted(places)


def test_diagnose_says_that_it_is_an_article_and_reads_what_it_quotes(tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text(CHINESE, "utf-8")
    (tmp_path / "job.log").write_text(LOG, "utf-8")
    article, log = (unhang("diagnose", name, folder=tmp_path) for name in ("post.txt", "job.log"))

    assert "post.txt is an article with" in article.stderr
    assert "unhang explain post.txt" in article.stderr
    assert article.stdout
    assert "article" not in log.stderr


def test_rows_name_risks_that_exist() -> None:
    for name in (name for row in passed_on() for name in (*row.found, *row.fine)):
        family, table, row = name.split(".")
        held = risk_file(family)
        assert row in (held.risk if table == "risk" else {**held.fine, **held.detail}), name


def test_advice_that_no_row_is_sure_of_names_what_settles_it() -> None:
    unsure = [row.id for row in passed_on() if row.judgement == "depends" and not row.settle]

    assert len(unsure) <= 5, unsure
    assert len({row.id for row in passed_on()}) == len(passed_on())


def test_nothing_of_an_article_is_handed_to_a_program(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {})
    hostile = (
        "Set LD_PRELOAD=/tmp/x.so and PYTHONPATH=/tmp; set NCCL_DEBUG=$(reboot); export NCCL_P2P_DISABLE=1; use py-spy."
    )
    judged_here(advice_in(hostile)[1], machine, ())

    assert machine.environment == {"NCCL_P2P_DISABLE": "1"}


@pytest.mark.parametrize(
    ("sentence", "key", "against"),
    [
        ("Do not raise the timeout; use py-spy.", "longer-limit", True),
        ("To avoid a timeout, reduce the batch size; use py-spy.", "smaller-batch", False),
        ("不要设置 NCCL_BLOCKING_WAIT=1；用 py-spy 抓栈。", "NCCL_BLOCKING_WAIT", True),
        ("为避免超时，减小 batch size；用 py-spy 抓栈。", "smaller-batch", False),
    ],
)
def test_advice_against_something_is_no_advice_for_it(sentence: str, key: str, against: bool) -> None:
    assert keys(sentence)[key].against is against


@pytest.mark.parametrize("folder", ["tests/articles/logs", "benchmarks/batches/two/logs", "examples"])
def test_what_programs_wrote_has_no_part_that_advises(folder: str) -> None:
    logs = sorted((Path(__file__).resolve().parents[3] / folder).glob("*.log"))

    assert logs
    for log in logs:
        advice = advice_in(log.read_text("utf-8", "replace"))[1]
        assert not any(piece.sentence.part == "advice" for piece in advice), log


SETTINGS = """\
# One silent job

A short story about a run that stopped

## Background
A collective that takes longer than the configured timeout period is aborted. The monitor sets a flag for GPU memory.

## What we changed

```yaml
env:
  NCCL_ALGO: Ring
  - name: NCCL_DEBUG
    value: "INFO"
```

```python
from datetime import timedelta
# ❌ bad
dist.init_process_group(timeout=timedelta(hours=9))
# ✅ good
torch.cuda.set_device(local_rank)
```

| NCCL_IB_DISABLE | 1 | no fabric |

- Start the server with `--max-model-len 4096`.
- Pin foobar==1.2.3 and drink the coffee.
- Upgrade the software stack of CUDA, cuDNN and NCCL version.
- os.environ["NCCL_P2P_DISABLE"] = "1"
- docker run -e NCCL_SHM_DISABLE=1 image
"""


def test_settings_are_read_however_they_are_written() -> None:
    found = keys(SETTINGS)

    assert {key: piece.value for key, piece in found.items() if piece.value} == {
        "NCCL_ALGO": "Ring",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_DISABLE": "1",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
    }
    assert "foobar 1.2.3" in found
    assert any("--max-model-len" in key and piece.worth == "unknown" for key, piece in found.items())


def test_titles_descriptions_and_imports_advise_nothing_and_the_wrong_way_is_advised_against() -> None:
    pieces = advice_in(SETTINGS)[1]

    assert min(piece.sentence.line for piece in pieces) > SETTINGS.splitlines().index("env:")
    assert not any("import" in piece.sentence.text for piece in pieces)
    assert [piece.key for piece in pieces if piece.against] == ["longer-limit"]
    assert [piece.worth for piece in pieces if piece.key == "own-device"] == ["right"]


def test_one_clause_has_one_worth() -> None:
    stack = [piece for piece in advice_in(SETTINGS)[1] if "software stack" in piece.sentence.text]

    assert [piece.worth for piece in stack] == ["depends"]


UNKNOWN = """\
训练第三步后所有进程都不动了，看了半天才明白是路由器那层的事。每张卡的专家数不同，有的卡收不到任何内容。
这台机器上装的是最普通的环境，没有什么特别之处，之前的几个项目一直跑得很稳，从来没有出过类似的状况，所以一开始没往这边想。
你可以在没有内容的卡上补一次空的计算，使次数相同。
另外建议把专家层换成稠密层再看，能跑通就说明是路由的事。
我们组的几个人前后看了两天，翻了很多资料，最后还是靠一行一行对照才弄明白的，写在这里留个记录，希望对后来的人有帮助，也欢迎留言交流看法。
"""


def test_prose_of_which_nothing_is_known_is_listed_as_not_judged(tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text(UNKNOWN, "utf-8")
    document = json.loads(unhang("explain", "post.txt", "--format", "json", folder=tmp_path).stdout)

    assert [page["kind"] for page in document["pages"]] == ["article", "advice: unknown", "advice: unknown"]
    assert advice_in(UNKNOWN)[1] == ()
    assert advice_in(QUESTION, few_known=True)[1] == ()
    assert advice_in(LOG, few_known=True)[1] == ()


def test_what_was_done_advises_and_what_is_said_does_not() -> None:
    found = keys("""\
Job hangs on two nodes

- NCCL watchdog timeout errors are often seen in larger jobs
- It worked across nodes and containers, same image

Reducing the batch size changed nothing. We upgraded PyTorch to 2.5.1 and it is gone. The configured limit is larger.

## What did not help
- Raising the timeout
""")

    assert set(found) == {"smaller-batch", "torch 2.5.1", "longer-limit"}
    assert found["longer-limit"].against


def told_of(text: str) -> list[str]:
    return [piece.sentence.text for piece in advice_in(text, few_known=True)[1]]


@pytest.mark.parametrize(
    ("advises", "tells"),
    [
        ("Delete the stale lock file and start again.", "The stale lock file was deleted by the system."),
        ("I bumped the shared memory and it runs.", "The shared memory of a container is 64 MB."),
        ("Moving the data to a local disk solved it.", "NCCL can use one interface per process."),
        ("Turns out `FOO_BAR=0` was the missing piece.", "Do you know whether FOO_BAR=0 was the missing piece?"),
        ("Instead of the plain list use a numpy array.", "It waits silently instead of crashing."),
        ("把 overlap_comm 改成 false 就好了", "GPU使用率一直是 100%，没有报错"),
        ("docker 里把 /dev/shm 调到 64g 之后就能跑了", "调用保存函数时，所有卡都停住了"),
        ("解决：在文件最前面加 cv2.setNumThreads(0)", "现象：跑到第三个 epoch 就停住了"),
        ("别忘了在每个 epoch 前重新打乱数据", "请问您解决了吗？"),
    ],
)
def test_a_sentence_advises_by_its_shape(advises: str, tells: str) -> None:
    others = "\n\nRestart the machine.\nReboot the switch.\n"

    assert advises.replace("`", "") in told_of(advises + others)
    assert tells not in told_of(tells + others)
    assert len(told_of(tells + others)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "What helped:\n\n- the second cable\n- 64 GB for /dev/shm\n",
        "We also changed the loader, as shown below:\n\n```yaml\npersistent: true\nretries: 3\n```\n",
        "Fix: ask the administrator for another switch.\n方法 2：找管理员换一台交换机\n",
        "-\n检查线缆是否插好\n\n-\n确认交换机端口的速率\n",
    ],
)
def test_what_a_heading_a_sentence_or_a_label_introduces_advises(text: str) -> None:
    assert len(told_of(text)) == 2


@pytest.mark.parametrize(
    ("sentence", "key"),
    [
        ("确认HTTP连接正常,通过wget命令测试数据分片下载速度,确保网络连接没有问题。", "network"),
        ("确认数据集大小,对于小规模数据集(如34个分片),这种超时可能是预期行为。", "small-run"),
        ("通过设置rank_zero_only=True参数,可以明确告知框架只在主进程记录日志。", "keep-record"),
        ("定期清理过期 checkpoint，防止磁盘写满。", "checkpoints"),
        ("If you test on a single node, adjust the number of processes.", "one-card-first"),
        ("Remember to turn off any debugging environment variables.", "environment variable"),
        ("Set FOO_TRACE=1 to record all calls for inspection in the log files.", "read-logs"),
    ],
)
def test_a_clause_is_judged_by_its_own_words_only(sentence: str, key: str) -> None:
    found = keys(f"{sentence}\n\n用 py-spy dump 抓栈。\n设置 NCCL_DEBUG=INFO。\n")

    assert "stacks" in found
    assert key not in found


SHORT = "export NCCL_P2P_DISABLE=1\nexport NCCL_IB_DISABLE=1\n再加个 torch.manual_seed(42) 就行了\n"


@pytest.mark.parametrize(
    ("pasted", "kind"),
    [(SHORT, "article"), ("NCCL_P2P_DISABLE=1", "variable"), ("how to raise\nthe timeout of nccl", "subject")],
)
def test_a_short_paste_of_several_pieces_is_an_article_and_a_question_is_none(pasted: str, kind: str) -> None:
    run = unhang("explain", "--format", "json", "-", standard_input=pasted.encode())
    kinds = [page["kind"] for page in json.loads(run.stdout)["pages"]]

    assert kinds[:1] == [kind]
    assert kind != "article" or kinds[1:] == ["advice: costs", kinds[2], "advice: depends"]


def test_a_cause_is_named_only_where_all_terms_agree(tmp_path: Path) -> None:
    unclear = CHINESE.replace("由于数据集划分时没有固定随机种子", "由于数据加载慢、显存不足、网络不通和随机种子")
    (tmp_path / "post.md").write_text(unclear, "utf-8")
    head = json.loads(unhang("explain", "post.md", "--format", "json", folder=tmp_path).stdout)["pages"][0]

    assert "Cause it names" not in [detail["label"] for detail in head["details"]]


@pytest.mark.parametrize(
    "told",
    [
        "Due to the asynchronous nature of CUDA kernels, GPU operations might run on corrupted/incomplete data.",
        "Because this is a V100, prefix caching cannot be used here, so I had to set enable_chunked_prefill to False.",
    ],
)
def test_a_sentence_that_is_mostly_about_something_else_names_no_cause(told: str) -> None:
    assert not named_causes(list(sentences(told)))


def test_in_a_thread_each_speaker_starts_anew() -> None:
    thread = """\
Job hangs

alice · description · 2025-02-21
It hangs at the start.

bob · comment · 2025-02-22
Delete the stale lock file.

carol commented on Mar 3
Reboot the switch.
"""

    assert told_of(thread) == ["Delete the stale lock file.", "Reboot the switch."]


TWO_MORE = "Set NCCL_DEBUG=INFO for one run.\nUse py-spy dump on every rank.\n"


def pieces_of(line: str) -> list[tuple[str, str, str | None]]:
    """What is recognised in ``line`` of an article: key, worth and value."""
    return [(one.key, one.worth, one.value) for one in advice_in(f"{line}\n{TWO_MORE}")[1] if one.sentence.line == 1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("export NCCL_SHM_DISABLE=0", [("NCCL_SHM_DISABLE", "already", "0")]),
        ("os.environ['TORCH_NCCL_BLOCKING_WAIT'] = 'false'", [("TORCH_NCCL_BLOCKING_WAIT", "already", "false")]),
        ("Set NCCL_SHM_DISABLE=1.", [("NCCL_SHM_DISABLE", "costs", "1")]),
        ("Did you set NCCL_P2P_DISABLE=1 somewhere?", []),
        ("Have you tried NCCL_P2P_DISABLE=1?", [("NCCL_P2P_DISABLE", "costs", "1")]),
        ("We ran it with --shm-size=8g.", [("shared-memory", "depends", None)]),
        ("Call dist.barrier() inside the if block, after saving.", [("barrier-on-one", "harmful", None)]),
        ("We call: if rank == 0: save(); dist.barrier()", [("barrier-on-one", "harmful", None)]),
        ("init_process_group('nccl', timeout=7200)", [("limit-as-number", "harmful", None)]),
        ("[Rank 1] ran for 600012 milliseconds before it was set to abort", []),
    ],
)
def test_a_line_is_judged_by_its_value_and_by_how_it_is_said(
    line: str, expected: list[tuple[str, str, str | None]]
) -> None:
    assert pieces_of(line) == expected


def test_two_values_of_one_variable_are_two_pieces_in_the_order_of_the_text() -> None:
    text = f"Use NCCL_SOCKET_IFNAME=bond0 here.\n{TWO_MORE}NCCL_SOCKET_IFNAME=mlx5_0 did it for me.\n"

    found = [(one.sentence.line, one.value) for one in advice_in(text)[1] if one.key == "NCCL_SOCKET_IFNAME"]

    assert found == [(1, "bond0"), (4, "mlx5_0")]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Boot with iommu=pt.\nSet NCCL_P2P_DISABLE=1.\nUpgrade NCCL to 2.27.\n", "p2p-broken"),
        ("Use set_start_method('spawn').\nAlso set num_workers=0.\nSet NCCL_DEBUG=INFO.\n", "slow-data-loading"),
    ],
)
def test_an_article_that_names_no_cause_is_about_what_most_of_its_advice_is_for(
    tmp_path: Path, text: str, cause: str
) -> None:
    post = tmp_path / "post.txt"
    post.write_text(f"Cluster news > Training\nMy job hangs at the first step\n{text}")

    page = json.loads(unhang("explain", str(post), "--format", "json").stdout)["pages"][0]

    assert page["title"] == "My job hangs at the first step"
    assert {"Its advice is for": cause} == {
        one["label"]: one["text"].split()[0] for one in page["details"] if one["label"] != "Symptom"
    }


@pytest.mark.parametrize(
    ("advice", "worth"),
    [
        ("- Set NCCL_BUFFLE_SIZE=8388608 before the start.", "no-effect"),
        ("- Set NCCL_P2P_LEVEL=NVL, it didn't help.", "no-effect"),
        ("- Set NCCL_P2P_LEVEL=NVL, if that didn't help, reboot.", "depends"),
        ("I was told to set these, which does not work:\n- export NCCL_P2P_LEVEL=NVL", "no-effect"),
        ("- 设置 NCCL_P2P_LEVEL=NVL，没有用。", "no-effect"),
        ("- 设置 NCCL_P2P_LEVEL=NVL，如果没有用就重启。", "depends"),
    ],
)
def test_what_nothing_reads_and_what_was_tried_in_vain_has_no_effect(advice: str, worth: str) -> None:
    found = keys(f"Our training hangs in the second epoch.\n\n{advice}\n\nSolution:\n- export NCCL_DEBUG=INFO\n" + MORE)

    [piece] = [one for key, one in found.items() if key in ("NCCL_BUFFLE_SIZE", "NCCL_P2P_LEVEL")]
    assert piece.worth == worth


@pytest.mark.parametrize(
    ("cause", "worths"),
    [
        ("It happens because rank 0 evaluates alone.", {"longer-limit": "right", "smaller-batch": "no-effect"}),
        (
            "It is caused by GPU OOM on one rank.",
            {"longer-limit": "no-effect", "smaller-batch": "right"},
        ),
        ("We do not know why.", {"longer-limit": "depends", "smaller-batch": "depends"}),
    ],
)
def test_the_cause_that_an_article_names_decides_what_depends_on_it(
    cause: str, worths: dict[str, str], tmp_path: Path
) -> None:
    solution = "Solution:\n- Increase the timeout.\n- Reduce the batch size.\n- Set NCCL_DEBUG=INFO.\n"
    own, advice = advice_in(f"Our job hung\n\n{cause}\n\n{solution}")
    here = judged_for(judged_here(advice, Machine(tmp_path, {}), ()), list(named_causes(own)))

    assert {one.key: one.worth for one in here if one.key in worths} == worths
