"""What OpenRLHF's asynchronous trainer does (``openrlhf/trainer/ppo_trainer_async.py``, v0.11.0), without models: the
one half takes samples from a queue, the other takes places from a queue before it makes any."""

from __future__ import annotations

import ray
import torch
import torch.distributed as dist
from ray.util.queue import Queue


@ray.remote
class PolicyModelActor:
    def __init__(self, rank: int, world_size: int, port: int) -> None:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)

    def fit(self) -> float:
        loss = torch.ones(4)
        dist.all_reduce(loss)
        return float(loss.sum())


@ray.remote
class TrainingActor:
    def __init__(self, rollouts: Queue, places: Queue) -> None:
        self.rollout_queue, self.rollout_slots = rollouts, places

    def fit(self, policy: list) -> None:
        while True:
            samples = self.rollout_queue.get(block=True)
            ray.get([model.fit.remote() for model in policy])
            self.rollout_slots.put(samples)  # only after a step: nobody gives the first place


@ray.remote
class GenerateSamplesActor:
    def __init__(self, rollouts: Queue, places: Queue) -> None:
        self.rollout_queue, self.rollout_slots = rollouts, places

    def fit(self) -> None:
        while True:
            place = self.rollout_slots.get(block=True)
            self.rollout_queue.put([place, "a sample"])
