"""Lines of the log, at the call that printed them."""

import logging


def evaluate(batches):
    for number in range(batches):
        print(f"evaluating: {number}/{batches} batches")  # finds: evaluating: 50/70 batches; [rank0]: evaluating: 50/70 batches


def main():
    logging.info("epoch %d finished in %.1f s", epoch, seconds)  # finds: INFO:root:epoch 3 finished in 12.5 s
    print("saving to {}".format(path))
    print(loss)  # fine
    print(f"{rank}: ok")  # fine
    print("twice the same words")  # fine
    print("twice the same words")  # fine
