"""The collecting process: plays episodes with a fixed copy of the policy."""
import numpy as np

LENGTH, AHEAD = 200, 64


def forward(weights, obs):
    hidden = np.tanh(obs @ weights["0.weight"].T + weights["0.bias"])
    return hidden @ weights["2.weight"].T + weights["2.bias"]


def episode(weights, rng):
    obs = rng.normal(size=(LENGTH, 6)).astype(np.float32)
    logits = forward(weights, obs)
    actions = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    gain = float((actions == obs[:, :3].argmax(1)).mean())
    return obs, actions, gain


def collect(queue, halt, weights, seed):
    rng = np.random.default_rng(seed)
    while not halt.is_set():
        if queue.qsize() < AHEAD:
            queue.put(episode(weights, rng))
        else:
            halt.wait(0.01)
