import csv
import logging
from dataclasses import dataclass

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


def preprocess(image):
    pixels = torch.frombuffer(bytearray(image.convert("RGB").resize((32, 32)).tobytes()), dtype=torch.uint8)
    return pixels.view(32, 32, 3).permute(2, 0, 1).float().div(127.5).sub(1)


def tokenize(text, context_length=32):
    tokens = [98, *(byte % 98 for byte in text.encode()[: context_length - 2]), 99]
    return torch.tensor(tokens + [0] * (context_length - len(tokens)))


class CsvDataset(Dataset):
    def __init__(self, input_filename, transforms, img_key, caption_key, sep="\t", tokenizer=None):
        logging.debug(f"Loading csv data from {input_filename}.")
        with open(input_filename, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter=sep))
        self.images = [row[img_key] for row in rows]
        self.captions = [row[caption_key] for row in rows]
        self.transforms = transforms
        self.tokenize = tokenizer

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, idx):
        images = self.transforms(Image.open(str(self.images[idx])))
        texts = self.tokenize(str(self.captions[idx]))
        return images, texts


@dataclass
class DataInfo:
    dataloader: DataLoader
    sampler: DistributedSampler = None

    def set_epoch(self, epoch):
        if self.sampler is not None:
            self.sampler.set_epoch(epoch)


def get_csv_dataset(args, preprocess_fn, is_train, tokenizer=None):
    input_filename = args.train_data if is_train else args.val_data
    dataset = CsvDataset(
        input_filename,
        preprocess_fn,
        img_key=args.csv_img_key,
        caption_key=args.csv_caption_key,
        sep=args.csv_separator,
        tokenizer=tokenizer,
    )
    num_samples = len(dataset)
    sampler = DistributedSampler(dataset) if args.distributed and is_train else None
    shuffle = is_train and sampler is None

    dataloader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=shuffle,
        num_workers=args.workers,
        sampler=sampler,
        drop_last=is_train,
    )
    dataloader.num_samples = num_samples
    dataloader.num_batches = len(dataloader)
    return DataInfo(dataloader, sampler)


def get_data(args):
    data = {"train": get_csv_dataset(args, preprocess, is_train=True, tokenizer=tokenize)}
    if args.val_data:
        data["val"] = get_csv_dataset(args, preprocess, is_train=False, tokenizer=tokenize)
    return data
