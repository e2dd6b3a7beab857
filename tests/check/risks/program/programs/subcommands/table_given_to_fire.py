# launch: torchrun table_given_to_fire.py train
# launch: torchrun table_given_to_fire.py evaluate
import fire
import torch.distributed as dist


def train():
    if dist.get_rank() == 0:
        dist.barrier()  # finds: rank-conditional-collective likely stops if train


def evaluate():
    dist.barrier()  # fine


if __name__ == "__main__":
    fire.Fire({"train": train, "evaluate": evaluate})
