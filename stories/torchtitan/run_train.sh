#!/usr/bin/env bash
# Without a cluster's object store: the same gateway, on this machine.
set -eu
python s3_gateway.py --folder objects --port-file gateway.port &
until [ -s gateway.port ]; do sleep 0.1; done
S3_ENDPOINT="http://127.0.0.1:$(cat gateway.port)"
export S3_ENDPOINT AWS_ACCESS_KEY_ID=titan AWS_SECRET_ACCESS_KEY=titan AWS_DEFAULT_REGION=us-east-1

exec torchrun --standalone --nproc-per-node 2 --role rank --tee 3 \
    train.py --job.config_file train_config.toml
