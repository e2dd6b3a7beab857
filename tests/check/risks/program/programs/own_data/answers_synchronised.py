# launch: torchrun --nproc_per_node 2 answers_synchronised.py --zero_stage 3
import os, time, torch, torch.distributed as dist
import deepspeed


class Engine:
    def __init__(self, args):
        self.actor = self.build(args)

    def build(self, args):
        engine, *_ = deepspeed.initialize(model=net, config=args)
        return engine


class Trainer:
    def __init__(self, engine):
        self.engine = engine
        self.actor = engine.actor

    def answers(self, prompts):
        return self.actor.module.generate(prompts, synced_gpus=True)  # fine


Trainer(Engine(args)).answers(prompts)
