# launch: torchrun --nproc_per_node 2 answers_of_spread_parameters.py --actor_zero_stage 3
# launch: torchrun --nproc_per_node 2 answers_of_spread_parameters.py --actor_zero_stage 2
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
        return self.actor.module.generate(prompts)  # finds: uneven-data possible stops if --actor_zero_stage 3


Trainer(Engine(args)).answers(prompts)
