import csv
import io
import itertools
import logging
from dataclasses import dataclass

import torch
import webdataset as wds
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def preprocess(image):
    pixels = torch.frombuffer(bytearray(image.convert("RGB").resize((32, 32)).tobytes()), dtype=torch.uint8)
    return pixels.view(32, 32, 3).permute(2, 0, 1).float().div(127.5).sub(1)


def tokenize(text, context_length=32):
    tokens = [98, *(byte % 98 for byte in text.encode()[: context_length - 2]), 99]
    return torch.tensor(tokens + [0] * (context_length - len(tokens)))


class CsvDataset(IterableDataset):
    """Streams the rows of a CSV that is too large to hold; every rank and worker takes its own rows."""

    def __init__(self, path, img_key, caption_key, sep, rank, world_size, repeat=False):
        self.path, self.img_key, self.caption_key, self.sep = path, img_key, caption_key, sep
        self.rank, self.world_size, self.repeat = rank, world_size, repeat

    def __iter__(self):
        worker = get_worker_info()
        seen = skipped = 0
        index, count = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        for _ in itertools.count() if self.repeat else range(1):
            with open(self.path, newline="", encoding="utf-8") as file:
                rows = csv.DictReader(file, delimiter=self.sep)
                for row in itertools.islice(rows, self.rank * count + index, None, self.world_size * count):
                    try:
                        image = preprocess(Image.open(row[self.img_key]))
                    except OSError as error:
                        logging.debug("skipping %s: %s", row[self.img_key], error)
                        skipped += 1
                        continue
                    seen += 1
                    yield image, tokenize(row[self.caption_key])
            if not self.repeat:
                logging.warning(f"[rank{self.rank}] {self.path}: Processed {seen} samples, skipped {skipped}")


@dataclass
class DataInfo:
    dataloader: DataLoader
    num_batches: int


def get_csv_dataset(args, is_train):
    dataset = CsvDataset(
        args.train_data if is_train else args.val_data,
        img_key=args.csv_img_key,
        caption_key=args.csv_caption_key,
        sep=args.csv_separator,
        rank=args.rank,
        world_size=args.world_size,
        repeat=is_train,
    )
    dataloader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.workers, drop_last=True)
    return DataInfo(dataloader, args.train_num_samples // (args.batch_size * args.world_size))


def get_wds_dataset(args, is_train):
    dataset = wds.WebDataset(
        args.train_data if is_train else args.val_data,
        nodesplitter=wds.split_by_node,
        workersplitter=wds.split_by_worker,
        shardshuffle=False,
    )
    dataset = dataset.to_tuple("jpg", "txt").map_tuple(
        lambda data: preprocess(Image.open(io.BytesIO(data))), lambda data: tokenize(data.decode())
    )
    if is_train:
        dataset = dataset.repeat()
    dataloader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.workers, drop_last=True)
    return DataInfo(dataloader, args.train_num_samples // (args.batch_size * args.world_size))


def get_data(args):
    get_dataset = get_wds_dataset if args.dataset_type == "webdataset" else get_csv_dataset
    return {"train": get_dataset(args, is_train=True), "val": get_dataset(args, is_train=False)}
