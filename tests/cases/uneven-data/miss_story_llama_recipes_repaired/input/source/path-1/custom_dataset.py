"""Customer dialogs as an instruction data set."""

import itertools

import datasets

OPENINGS = ("Hello, I have a question.", "Hi there!", "Good morning.", "I need some help please.")
TOPICS = ("my order", "the invoice of last month", "a broken screen", "the delivery to another address")
ANSWERS = ("Thank you for writing to us.", "I am sorry to hear that.", "Let me look this up for you.")


def make_dialogs(number):
    """Most dialogs are short, a few go on for pages."""
    for index in range(number):
        question = f"{OPENINGS[index % 4]} It is about {TOPICS[index // 4 % 4]}."
        words = itertools.cycle(" ".join(ANSWERS).split())
        answer = " ".join(itertools.islice(words, int(20 * 1.08**index)))
        yield {"question": question, "answer": answer}


def tokenize_dialog(dialog, tokenizer):
    prompt = tokenizer(f"[INST] {dialog['question']} [/INST]")["input_ids"]
    answer = tokenizer(dialog["answer"])["input_ids"] + [tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


def get_custom_dataset(dataset_config, tokenizer, split):
    dataset = datasets.Dataset.from_list(list(make_dialogs(dataset_config.num_dialogs)))
    dataset = dataset.train_test_split(test_size=dataset_config.test_size, seed=42)[split]
    dataset = dataset.filter(lambda dialog: len(dialog["answer"].split()) <= dataset_config.max_words)
    return dataset.map(lambda dialog: tokenize_dialog(dialog, tokenizer), remove_columns=list(dataset.features))


class ConcatDataset:
    """Samples one behind the other, cut into chunks of equal length."""

    def __init__(self, dataset, chunk_size):
        joined = {name: list(itertools.chain.from_iterable(dataset[name])) for name in ("input_ids", "labels")}
        starts = range(0, len(joined["input_ids"]) - chunk_size + 1, chunk_size)
        self.samples = [{name: joined[name][at : at + chunk_size] for name in joined} for at in starts]

    def __getitem__(self, index):
        return self.samples[index]

    def __len__(self):
        return len(self.samples)
