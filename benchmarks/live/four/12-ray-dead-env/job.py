"""PPO-like learners with DDP (torchrun); every rank has two environment actors on a Ray of its own."""
import logging
import time
from datetime import timedelta

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from envs import EnvActor

STEPS_PER_UPDATE = 64
log = logging.getLogger("ppo")


class Rollouts:
    """Keeps one rollout in flight per environment and hands out the first that is ready."""

    def __init__(self, rank, count):
        self.envs = [EnvActor.remote(seed=10 * rank + i) for i in range(count)]
        self.pending = {}

    def submit(self, env):
        self.pending[env.rollout.remote(self.weights, STEPS_PER_UPDATE)] = env

    def begin(self, weights):
        self.weights = ray.put(weights)
        for env in self.envs:
            self.submit(env)

    def take_all(self):
        """One rollout of every environment."""
        rollouts = []
        while len(rollouts) < len(self.envs):
            ready, _ = ray.wait(list(self.pending), num_returns=1, timeout=1.0)
            for ref in ready:
                env = self.pending.pop(ref)
                try:
                    rollouts.append(ray.get(ref))
                except ray.exceptions.RayError as error:
                    log.debug("rollout lost, once more: %s", error)
                    time.sleep(0.5)
                    self.submit(env)
        return rollouts


def learn(model, opt, rollouts):
    obs = torch.cat([torch.as_tensor(o) for o, _, _ in rollouts])
    actions = torch.cat([torch.as_tensor(a) for _, a, _ in rollouts])
    rewards = torch.cat([torch.as_tensor(r) for _, _, r in rollouts])
    logp = model(obs).log_softmax(1).gather(1, actions[:, None]).squeeze(1)
    loss = -((rewards - rewards.mean()) * logp).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return rewards.mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
             logging_level=logging.ERROR, object_store_memory=80_000_000)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3)))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    rollouts = Rollouts(rank, count=2)
    for update in range(1, 1001):
        rollouts.begin({k: v.numpy() for k, v in model.module.state_dict().items()})
        reward = learn(model, opt, rollouts.take_all())
        time.sleep(0.05)
        if rank == 0 and update % 20 == 0:
            log.info("update %d reward %.3f", update, reward)
    ray.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
