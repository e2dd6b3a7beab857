import re
from dataclasses import dataclass, field
from datetime import timedelta

import torch.distributed as dist
from datasets import Dataset
from tiny import build_model, build_tokenizer
from trl import GRPOConfig, GRPOTrainer, ScriptArguments, TrlParser


@dataclass
class GRPOScriptArguments(ScriptArguments):
    """Script arguments for the GRPO training script."""

    reward_funcs: list[str] = field(default_factory=lambda: ["accuracy", "format"])
    max_pixels: int = 12845056
    prompts: int = 32


def accuracy_reward(completions, solution, **kwargs):
    return [float(answer in completion.split()) for completion, answer in zip(completions, solution, strict=True)]


def format_reward(completions, **kwargs):
    return [1.0 if re.match(r"^(one|two|three|four)\b", completion.strip()) else 0.0 for completion in completions]


REWARDS = {"accuracy": accuracy_reward, "format": format_reward}


def build_dataset(args):
    rows = []
    for i in range(args.prompts):
        task = "describe" if i % 8 == 5 else "count"
        rows.append({"prompt": f"<image> the objects in the image {task}", "solution": ["one", "two"][i % 2]})
    return Dataset.from_list(rows)


def main(script_args, training_args):
    trainer = GRPOTrainer(
        model=build_model(max_length=training_args.max_completion_length + 64),
        reward_funcs=[REWARDS[name] for name in script_args.reward_funcs],
        args=training_args,
        train_dataset=build_dataset(script_args),
        processing_class=build_tokenizer(),
    )
    trainer.train()
    trainer.save_model(training_args.output_dir)
    print("Training finished", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    parser = TrlParser((GRPOScriptArguments, GRPOConfig))
    main(*parser.parse_args_and_config())
