# launch: torchrun commands_of_click.py train-all
# launch: torchrun commands_of_click.py evaluate
import click
import torch.distributed as dist


@click.group()
def cli():
    pass


@cli.command()
def train_all():
    if dist.get_rank() == 0:
        dist.barrier()  # finds: rank-conditional-collective likely stops if train-all


@cli.command("evaluate")
def check_it():
    if dist.get_rank() == 0:
        dist.all_reduce(1)  # finds: rank-conditional-collective likely stops if evaluate


cli()
