from __future__ import annotations

import pytest

from tests.report import fact_samples
from tests.report import report_samples as samples
from unhang.report.redaction.redact import Redactor
from unhang.secrets import without_secrets, words_without_secrets

LOG = """\
[rank3]:[E302 04:21:09] ProcessGroupNCCL.cpp:563 failed on gpu-a17 (10.31.4.17)
gpu-a17:4312:4390 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.31.4.17<0>
  File "/home/mlee/pretrain/train.py", line 26, in main
  File "/home/mlee/env/lib/python3.11/site-packages/torch/serialization.py", line 965, in save
mlee@gpu-a17:~$ MASTER_ADDR=gpu-a18 MASTER_PORT=29500 torchrun train.py
logs in /data/run7/attempt_0/3/stderr.log, mail mei.lee@example.com, peer fd00:31::4:17, took 04:21:09
"""


def test_people_machines_and_places_are_renamed_and_the_rest_stays() -> None:
    text = Redactor(share=True).text(LOG)
    for private in ("mlee", "gpu-a17", "gpu-a18", "10.31.4.17", "fd00:31", "mei.lee", "pretrain", "run7"):
        assert private not in text
    assert '/path-1/train.py", line 26, in main' in text
    assert "/lib/python3.11/site-packages/torch/serialization.py" in text
    assert "/attempt_0/3/stderr.log" in text
    assert "ProcessGroupNCCL.cpp:563" in text
    assert "took 04:21:09" in text
    assert "host-1:4312:4390 [3] NCCL INFO" in text
    assert "MASTER_ADDR=host-2 MASTER_PORT=29500" in text


def test_the_same_thing_keeps_its_name_over_texts_and_runs() -> None:
    first, second = Redactor(share=True), Redactor(share=True)
    assert first.text(LOG) == second.text(LOG)
    assert first.text("again gpu-a17 and /home/mlee/pretrain/data.py") == "again host-1 and /path-1/data.py"


def test_what_is_renamed_already_is_left_alone() -> None:
    redactor = Redactor(share=True)
    once = redactor.text(LOG)
    assert redactor.text(once) == once


def test_a_host_learnt_later_is_found_when_all_texts_are_learnt_first() -> None:
    redactor = Redactor(share=True)
    redactor.learn(LOG)
    assert "gpu-a18" not in redactor.text("cannot reach gpu-a18, giving up")


def test_without_share_only_secrets_go() -> None:
    assert Redactor().text(LOG) == LOG


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("git clone https://bob:hunter2@git.example.com/x.git", "hunter2"),
        ("GET https://s3.example.com/a?X-Amz-Signature=abcdef0123&x=1", "abcdef0123"),
        ("WANDB_API_KEY=0123456789abcdef0123", "0123456789abcdef0123"),
        ("export AWS_SECRET_ACCESS_KEY='abc/def+ghi'", "abc/def+ghi"),
        ('{"api_key": "s3cr3tvalue", "n": 3}', "s3cr3tvalue"),
        ("train.py --hf-token hf_abcdefghijklmnopqrstuvwx", "hf_abcdefghijklmnopqrstuvwx"),
        ("Authorization: Bearer abcdef.ghijkl-mnop", "abcdef.ghijkl-mnop"),
        ("login --password hunter2xx", "hunter2xx"),
        ("redis://:p4ssw0rd@10.0.0.1:6379/0", "p4ssw0rd"),
        ("key AKIAABCDEFGHIJKLMNOP used", "AKIAABCDEFGHIJKLMNOP"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----", "MIIabc"),
        ("DB_PASSWORD: correct-horse", "correct-horse"),
        ("python slack.py https://hooks.slack.com/services/T00/B00/aBcD", "T00/B00/aBcD"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/0f-1e 'x'", "0f-1e"),
    ],
)
def test_secrets_are_always_removed(text: str, secret: str) -> None:
    cleaned = without_secrets(text)
    assert secret not in cleaned
    assert "[removed]" in cleaned
    assert without_secrets(cleaned) == cleaned


def test_in_a_command_the_word_after_an_option_that_names_a_secret_goes() -> None:
    kept = ["--token", "--lr", "3e-4", "--tokenizer", "gpt2-small"]

    assert words_without_secrets(["train.py", "--api-key", "s3 cr3t", *kept]) == [
        *("train.py", "--api-key", "[removed]"),
        *kept,
    ]
    assert words_without_secrets(["--wandb-api-key", "fedcba9876543210"])[1] == "[removed]"
    assert words_without_secrets([]) == []


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=512000 pad_token='[PAD_TOKEN]' TOKENIZERS_PARALLELISM=false",
        "train.py --pad-token <|endoftext|> --image-token <image> --api-keys-file none",
        "tokens/s: 123456 num_tokens: 8388608",
        "WorkNCCL(SeqNum=1042, OpType=ALLREDUCE, NumelIn=25600000, Timeout(ms)=600000)",
        'File "train.py", line 12, in tokenize',
        "store key: default_pg/0//cuda//0",
    ],
)
def test_what_looks_like_a_secret_and_is_none_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_hostile_line_is_read_in_linear_time() -> None:
    redactor = Redactor(share=True)
    for piece in ("-", "a.", "/a", "token", "1:", "@a", "?&", 'token="', "a/"):
        redactor.text(piece * 200_000)  # with the square of it, this would not end before the test's limit


def test_plain_containers_are_rewritten_through_and_through() -> None:
    dump = {"frames": [{"filename": "/home/mlee/x/train.py", "line": 3}], "host": "gpu-a17", "n": (1, None)}
    redactor = Redactor(share=True)
    redactor.learn_hosts(["gpu-a17"])
    changed = {"frames": [{"filename": "/path-1/train.py", "line": 3}], "host": "host-1", "n": (1, None)}
    assert redactor.plain(dump) == changed


def test_a_verdict_teaches_its_nodes() -> None:
    redactor = Redactor(share=True)
    redactor.learn_from(samples.hang(), fact_samples.facts(16))
    assert "gpu-a01" not in redactor.text("seen on gpu-a01")


def test_an_ipv4_inside_an_ipv6_leaves_nothing_behind() -> None:
    assert Redactor(share=True).text("retry [::ffff:10.21.7.16]:29500") == "retry [addr-1]:29500"


def test_system_paths_sources_of_torch_and_store_keys_stay() -> None:
    line = "/dev/shm full, /opt/build/torch/csrc/distributed/c10d/Store.cpp:12 key /default_pg/0//cuda//0 by dev"
    text = Redactor(share=True).text(line)
    assert text == "/dev/shm full, /path-1/torch/csrc/distributed/c10d/Store.cpp:12 key /default_pg/0//cuda//0 by dev"
