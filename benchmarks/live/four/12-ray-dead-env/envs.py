"""The environment actor: a point that has to be steered back to zero."""
import os

import numpy as np
import ray


class Simulator:
    """Binding of the simulator; its native part gives up on states it cannot represent."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.wind = 0.4 if seed == 11 else 0.0
        self.state = np.zeros(4, dtype=np.float32)
        self.age = 0

    def step(self, action):
        self.age += 1
        self.state[:2] = 0.9 * self.state[:2] + 0.1 * (action - 1)
        self.state[2:] += self.rng.normal(0, 0.01, 2) + self.wind * (self.age > 6000) * 0.05
        if np.abs(self.state).max() > 20:
            os._exit(134)
        return self.state.copy(), -float(np.abs(self.state[:2]).sum())


@ray.remote(num_cpus=1)
class EnvActor:
    def __init__(self, seed):
        self.sim = Simulator(seed)
        self.obs = self.sim.state.copy()

    def rollout(self, weights, steps):
        seen, actions, rewards = [], [], []
        for _ in range(steps):
            hidden = np.tanh(weights["0.weight"] @ self.obs + weights["0.bias"])
            logits = weights["2.weight"] @ hidden + weights["2.bias"]
            action = int((logits + self.sim.rng.gumbel(size=3)).argmax())
            seen.append(self.obs)
            actions.append(action)
            self.obs, reward = self.sim.step(action)
            rewards.append(reward)
        return np.stack(seen), np.array(actions), np.array(rewards, dtype=np.float32)
