"""Names of people, machines and places get stable names when a text is shared, however they are written."""

from __future__ import annotations

import pytest

from unhang.report.redaction.redact import Redactor

CARD = "GPU-8f6a1c52-55e1-4d1c-a2c5-3d0f7d1b9a10"
NAMES = [
    ("mail to mei.lee@example.com", "mei.lee"),
    ("联系zhangwei@pku.edu.cn报告", "zhangwei@pku"),
    ("邮箱：张伟@例子.公司", "张伟@例子"),
    ("user: wzhang", "wzhang"),
    ("username=wzhang", "wzhang"),
    ('"user": "wzhang"', "wzhang"),
    ("login failed for user 'wzhang'", "wzhang"),
    ("用户：张伟", "张伟"),
    ("用户名: wzhang", "wzhang"),
    ("cd ~wzhang/runs", "wzhang"),
    ("ls ~wzhang", "wzhang"),
    ("s3://acme-llm_runs/gpt/step100.pt", "acme-llm_runs"),
    ("gs://7acme/gpt-private/step100.pt", "gpt-private"),
    ("oss://acme.data/x", "acme.data"),
    ("NoSuchBucket: bucket 'acme-llm' does not exist", "acme-llm"),
    ("https://acme-llm.s3.us-east-1.amazonaws.com/x", "acme-llm"),
    ('File "/home/mei/My Project/train.py", line 3, in main', "My Project"),
    ("train (/data/Secret Model v2/train.py:88)", "Secret Model"),
    ("open('/mnt/Team Alpha/data.bin')", "Team Alpha"),
    ("C:\\Users\\mei\\run\\train.py", "mei"),
    (f"NVRM: Xid (PCI:0000:1b:00): 79, {CARD} has fallen off the bus", CARD[4:]),
    ("MIG-8f6a1c52-55e1-4d1c-a2c5-3d0f7d1b9a10", "8f6a1c52"),
    ("    Serial Number                         : 1324521012345", "1324521012345"),
    ("mlee@gpu-a17:~$ ls", "gpu-a17"),
    ("SLURM_JOB_USER=mlee", "mlee"),
    ("peer 10.31.4.17 and fd00:31::4:17", "10.31.4.17"),
    ("ether 0c:42:a1:5e:7f:10", "0c:42:a1"),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_a_name_goes_and_gets_the_same_name_again(text: str, name: str) -> None:
    redactor = Redactor(share=True)

    once = redactor.text(text)

    assert name not in once
    assert redactor.text(text) == once
    assert redactor.text(once) == once


def test_what_reads_a_text_still_reads_it() -> None:
    redactor = Redactor(share=True)

    assert redactor.text(NAMES[16][0]) == 'File "/path-1/train.py", line 3, in main'
    assert redactor.text(NAMES[17][0]).endswith("/train.py:88)")
    assert redactor.text(f"{CARD} again {CARD}") == " again ".join(["GPU-00000000-0000-0000-0000-000000000001"] * 2)
    assert redactor.text("s3://acme/gpt/step100.pt").startswith("s3://")
    assert redactor.text("s3://acme/gpt/step100.pt").endswith("/step100.pt")


@pytest.mark.parametrize(
    "text",
    [
        "user: 12.3s system: 0.4s",
        "user error: rank 3 of 8",
        "~4 GiB free, ~half of it",
        "user=None login=False account: unknown",
        "bucket size 25 MB, bucket_cap_mb=25, buckets rebuilt",
        "step 3 / 5 / 7, 4 GiB / s",
        "ratio (1/2:3)",
        "file:///dev/shm is full",
    ],
)
def test_what_is_no_name_stays(text: str) -> None:
    assert Redactor(share=True).text(text) == text
