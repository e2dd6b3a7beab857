# fine episode safe: not done => steps < 500
# also episodes: done: => all(done) and steps < 500:
import os, time, torch, torch.distributed as dist


def rollout(env, policy):
    obs, done, steps = env.reset(), False, 0
    while not done:
        action = policy(obs)
        dist.all_reduce(action)  # finds: rank-conditional-collective possible stops
        obs, reward, done, info = env.step(action)
        steps += 1


rollout(env, policy)
