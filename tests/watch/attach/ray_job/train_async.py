"""Asynchronous PPO whose two halves wait for each other from the beginning, unless a second argument gives the first
place."""

import socket
import sys

import ray
from openrlhf.trainer.ppo_trainer_async import GenerateSamplesActor, PolicyModelActor, TrainingActor
from ray.util.queue import Queue


def main() -> None:
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[1])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rollouts, places = Queue(maxsize=2), Queue(maxsize=2)
    policy = [PolicyModelActor.remote(rank, 2, port) for rank in range(2)]
    ray.get([model.fit.remote() for model in policy])
    if len(sys.argv) > 2:
        places.put("first")
    trainer, generator = TrainingActor.remote(rollouts, places), GenerateSamplesActor.remote(rollouts, places)
    both = [generator.fit.remote(), trainer.fit.remote(policy)]
    print("both halves began", flush=True)
    ray.get(both)


main()
