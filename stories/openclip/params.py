import argparse


def parse_args(args=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-data", required=True)
    parser.add_argument("--val-data", default=None)
    parser.add_argument("--dataset-type", choices=["csv"], default="csv")
    parser.add_argument("--csv-separator", default="\t")
    parser.add_argument("--csv-img-key", default="filepath")
    parser.add_argument("--csv-caption-key", default="title")
    parser.add_argument("--val-frequency", type=int, default=1, help="How often to run evaluation with val data.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--log-every-n-steps", type=int, default=4)
    parser.add_argument("--dist-backend", default="gloo")
    return parser.parse_args(args)
