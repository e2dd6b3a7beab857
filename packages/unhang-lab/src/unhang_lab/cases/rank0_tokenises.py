"""Build the training set on one rank, then train on it everywhere."""

import os
import random
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def tokenize(text, merges):
    pieces = list(text)
    while True:
        pairs = {(left, right) for left, right in zip(pieces, pieces[1:]) if left + right in merges}
        if not pairs:
            return [merges.get(piece, ord(piece[0])) for piece in pieces]
        left, right = min(pairs, key=lambda pair: merges[pair[0] + pair[1]])
        joined, index = [], 0
        while index < len(pieces):
            both = pieces[index : index + 2] == [left, right]
            joined.append(left + right if both else pieces[index])
            index += 2 if both else 1
        pieces = joined


def prepare(path, documents=200_000):
    words = ["the", "ing", "and", "ion", "th", "in", "an", "io", "er", "re"]
    merges = {word: 256 + number for number, word in enumerate(words)}
    draw = random.Random(0)
    encoded = []
    for _ in range(documents):
        text = "".join(draw.choice("aeinodrghtkl ") for _ in range(2000))
        encoded.append(tokenize(text, merges)[:64])
    torch.save(encoded, path)


def main():
    device = setup()
    model = DistributedDataParallel(torch.nn.Embedding(512, 16).to(device))
    if dist.get_rank() == 0:
        prepare("tokens.pt")
    dist.barrier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for row in torch.load("tokens.pt"):
        model(torch.tensor(row, device=device)).pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
