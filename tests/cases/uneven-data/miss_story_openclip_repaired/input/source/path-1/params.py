import argparse


def parse_args(args=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-data", required=True)
    parser.add_argument("--val-data", required=True)
    parser.add_argument("--dataset-type", choices=["webdataset", "csv"], default="csv")
    parser.add_argument("--train-num-samples", type=int, default=192)
    parser.add_argument("--csv-separator", default="\t")
    parser.add_argument("--csv-img-key", default="filepath")
    parser.add_argument("--csv-caption-key", default="title")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--log-every-n-steps", type=int, default=4)
    parser.add_argument("--dist-backend", default="gloo")
    parser.add_argument("--dist-timeout", type=float, default=600, help="seconds")
    return parser.parse_args(args)
