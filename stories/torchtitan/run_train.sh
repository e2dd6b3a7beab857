#!/usr/bin/env bash
set -eu
NGPU=${NGPU:-"2"}
CONFIG_FILE=${CONFIG_FILE:-"train_config.toml"}

exec torchrun --standalone --nproc_per_node=${NGPU} --role rank --tee 3 \
    train.py --job.config_file ${CONFIG_FILE}
