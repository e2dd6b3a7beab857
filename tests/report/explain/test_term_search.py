"""Which page fits what people ask in either language; words of no page get none, and the nearest is called that."""

from __future__ import annotations

import pytest

from tests.command import unhang
from unhang.knowledge.terms import term
from unhang.report.explain.search import explain
from unhang.report.explain.term_search import terms_within, units_of

FITTING = {
    "gathering results": ["数据收集", "数据收集阶段", "收集结果时", "data collection"],
    "device numbering": [
        "映射关系不明确",
        "进程与 GPU 的映射关系不明确",
        "非连续的 GPU 设备选择",
        "设备映射异常",
        "non-contiguous GPUs",
    ],
    "point-to-point communication": [
        "通过主机内存交换",
        "强制通过主机内存交换",
        "点对点",
        "exchange through host memory",
    ],
    "network": ["通信不稳定", "节点间通信不稳定", "network instability"],
    "testing communication between GPUs": [
        "验证 GPU 间通信",
        "验证GPU间通信正常",
        "verify GPU communication",
        "nccl-tests",
    ],
    "TensorBoard": ["日志 I/O 瓶颈", "日志I/O瓶颈", "精简日志内容", "less logging"],
    "LoRA": ["LoRA", "LoRA 微调", "LoRA fine-tuning"],
    "ProcessGroupNCCL": ["ProcessGroupNCCL", "ProcessGroupNCCL.cpp"],
    "increase the timeout": ["train_timeout_seconds", "默认100秒", "默认 100 秒超时", "超时时间设置不足"],
    "nvidia-smi": ["nvidia-smi"],
    "profiler": ["profiling", "性能剖析"],
    "offload": ["offload", "CPU offload", "调整 zero 内存优化策略"],
    "A100 and other GPU models": ["混合GPU", "多种 GPU 混用", "mixed GPUs"],
    "small-scale test": ["逐步增加规模", "逐步扩大训练规模", "各进程数据一致"],
    "CUDA version": ["驱动", "driver", "CUDA 9.1", "驱动过旧", "outdated driver"],
    "systematic debugging": ["系统化调试", "系统化的调试方法", "检查各节点日志"],
    "resource contention": ["其他进程占用了大量GPU资源", "GPU contention"],
    "collective communication": ["任一节点延迟影响全体", "one slow rank slows all"],
    "taking the process down": ["为防止数据不一致终止所有进程", "To avoid data inconsistency"],
    "NCCL_TIMEOUT": ["增加NCCL_TIMEOUT的值", "increase NCCL_TIMEOUT"],
    "transformers 4.49.0": ["transformers 4.49.0", "transformers==4.49.0"],
    "hang": ["多卡训练卡死怎么办？", "why does it hang"],
    "GRPO": ["降低num_generations", "reduce num_generations"],
    "NUMA": ["across NUMA nodes", "绑定 NUMA 节点"],
    "random seed": ["set random seed", "固定随机种子"],
    "eval hang": ["evaluation hangs", "evaluation on rank 0 only", "只在 rank 0 上评估"],
    "port in use": ["检查端口是否被占用"],
    "zombie process": ["kill zombie processes"],
    "batch_size": ["降低 batch_size"],
}
"""Titles of pages, and what is asked for them: words of articles and words like them."""

OF_NO_PAGE = [
    "LoRA rank",
    *("learning rate warmup", "ring attention", "beam search", "KV cache", "rank correlation", "dataset license"),
    *("flash attention", "gradient clipping", "label smoothing", "tree search", "GPU pricing", "tokenizer vocabulary"),
    *(
        "学习率预热",
        "梯度裁剪",
        "混合精度",
        "数据库索引",
        "模型并行度",
        "注意力机制",
        "词表大小",
        "提示词工程",
        "显卡价格",
        "推理加速引擎",
    ),
]


@pytest.mark.parametrize(("title", "asked"), [(title, word) for title, words in FITTING.items() for word in words])
def test_words_of_articles_find_the_page_that_fits(title: str, asked: str) -> None:
    found = explain(asked)

    assert not found.nearest
    assert title in [page.title for page in found.pages]


@pytest.mark.parametrize("asked", OF_NO_PAGE)
def test_words_of_no_page_get_none_as_if_it_fitted(asked: str) -> None:
    found = explain(asked)

    assert found.nearest or not found.pages


NEAREST = {
    "flight recorder": ["ring buffer", "环形缓冲区"],
    "host memory": ["swap thrashing", "交换分区频繁换页"],
    "disk I/O": ["NFS soft mount", "NFS 软挂载"],
    "TensorBoard": ["log rotation", "日志轮转"],
    "uneven data": ["early stopping patience", "早停"],
    "nan": ["gradient clipping threshold", "梯度裁剪阈值"],
    "LoRA": ["LoRA rank"],
}
"""Titles of pages that come nearest to what has no page of its own."""


@pytest.mark.parametrize(("title", "asked"), [(title, word) for title, words in NEAREST.items() for word in words])
def test_what_has_no_page_is_shown_the_nearest_by_meaning(title: str, asked: str) -> None:
    found = explain(asked)

    assert found.nearest
    assert [page.title for page in found.pages] == [title]


@pytest.mark.parametrize(
    "asked",
    ["reduce learning rate", "降低学习率", "验证码", "image classification"],
)
def test_a_question_without_a_page_for_its_telling_word_gets_none(asked: str) -> None:
    assert explain(asked).pages == ()


@pytest.mark.parametrize("word", ["cache", "process", "port", "node", "save", "freeze", "crash", "gpu"])
def test_a_word_and_its_plural_are_one_unit(word: str) -> None:
    plural = f"{word}es" if word.endswith(("s", "h")) else f"{word}s"

    assert units_of(plural) == units_of(word)


@pytest.mark.parametrize("word", ["ring", "seed", "loss", "bus"])
def test_a_short_word_keeps_what_looks_like_an_ending(word: str) -> None:
    assert units_of(word) == {word}


def test_the_nearest_page_is_called_that_in_both_languages() -> None:
    english, chinese = (unhang("explain", "--lang", lang, "verify GPU communication speed") for lang in ("en", "zh"))

    assert english.returncode == chinese.returncode == 0
    assert "No page for 'verify GPU communication speed'; nearest page:" in english.stdout
    assert "没有“verify GPU communication speed”的页面，最接近的页面是：" in chinese.stdout


def test_what_only_shares_a_common_word_is_named_and_not_shown() -> None:
    run = unhang("explain", "ring attention")

    assert run.stdout == ""
    assert run.returncode == 2
    assert "No page for 'ring attention'; nearest: ring" in run.stderr


def test_a_question_in_chinese_is_not_answered_by_incidents_with_its_english_words() -> None:
    assert explain("显卡价格 GPU").incidents == ()


def test_words_of_asking_and_releases_say_nothing() -> None:
    assert units_of("how do I use the driver 390.30?") == units_of("driver")
    assert units_of("怎么办") == frozenset()


def test_the_longest_name_in_a_sentence_counts() -> None:
    found = [one.names[0] for one in terms_within("evaluation hangs").values()]

    assert found == ["eval hang"]
    assert term("hang") is not None
