"""The data set: conversations, put into the template and cut into tokens."""

import random
from dataclasses import dataclass

import unhang
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

QUESTION, ANSWER = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", "{}<|im_end|>\n"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@dataclass
class DataArguments:
    max_samples: int = 1000
    cutoff_len: int = 512
    preprocessing_batch_size: int = 100
    overwrite_cache: bool = True


def get_tokenizer():
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    wrapped.add_special_tokens({"additional_special_tokens": SPECIAL[1:2]})
    return wrapped


def load_conversations(count):
    draw = random.Random(42)
    words = ["fever", "dose", "since", "patient", "reports", "blood", "pressure", "daily", "pain", "history", "of"]
    for _ in range(count):
        turns = [" ".join(draw.choices(words, k=draw.randint(20, 60))) for _ in range(6)]
        yield {"messages": [{"question": turns[i], "answer": turns[i + 1]} for i in range(0, len(turns), 2)]}


def get_dataset(data_args, training_args, tokenizer):
    with unhang.rank_zero_first("load dataset"):
        dataset = Dataset.from_generator(load_conversations, gen_kwargs={"count": data_args.max_samples})

    def encode(messages):
        input_ids, labels = [], []
        for turn in messages:
            source = tokenizer.encode(QUESTION.format(turn["question"]), add_special_tokens=False)
            target = tokenizer.encode(ANSWER.format(turn["answer"]), add_special_tokens=False)
            input_ids += source + target
            labels += [-100] * len(source) + target
        return input_ids[: data_args.cutoff_len], labels[: data_args.cutoff_len]

    def preprocess(examples):
        encoded = [encode(messages) for messages in examples["messages"]]
        return {"input_ids": [ids for ids, _ in encoded], "labels": [labels for _, labels in encoded]}

    with unhang.rank_zero_first("pre-process dataset"):
        return dataset.map(
            preprocess,
            batched=True,
            batch_size=data_args.preprocessing_batch_size,
            remove_columns=dataset.column_names,
            load_from_cache_file=not data_args.overwrite_cache or training_args.local_process_index != 0,
            desc="Running tokenizer on dataset",
        )
