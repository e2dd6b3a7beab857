# fine agreed: loss = -ratio => dist.all_reduce(divergence, op=dist.ReduceOp.AVG)\n        loss = -ratio
# fine on the round: divergence > limit: => epoch > limit:
# fine never backward: loss.backward() => loss.item()
import torch, torch.distributed as dist
from torch import nn


class Agent(nn.Module):
    def act(self, seen):
        return self.actor(seen).log_prob(seen), self.critic(seen)


def update(agent, seen, old, limit):
    for epoch in range(4):
        new, value = agent.act(seen)
        ratio = new - old
        divergence = (ratio.exp() - 1 - ratio).mean()
        loss = -ratio.exp().mean() + value.mean()
        loss.backward()
        for one in agent.parameters():
            dist.all_reduce(one.grad)  # finds: rank-conditional-collective possible stops "the rank's own data"
        if divergence > limit:
            break


def measure(agent, seen, limit):
    for epoch in range(4):
        new, value = agent.act(seen)
        dist.all_reduce(value)
        if new.mean() > limit:  # fine
            break


agent = Agent()
update(agent, seen, old, 0.01)
measure(agent, seen, 0.01)
