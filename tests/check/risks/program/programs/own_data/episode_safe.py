import os, time, torch, torch.distributed as dist


def rollout(env, policy):
    obs, done, steps = env.reset(), False, 0
    while steps < 500:
        action = policy(obs)
        dist.all_reduce(action)  # fine
        obs, reward, done, info = env.step(action)
        steps += 1


rollout(env, policy)
