# launch: torchrun by_click.py
# launch: torchrun by_click.py --val_split 0.2
import click


@click.command()
@click.option("--val-split", type=float, default=0.0)
def main(val_split):
    if val_split > 0:
        data.train_test_split(0.1)  # finds: left out unless --val_split 0.2
