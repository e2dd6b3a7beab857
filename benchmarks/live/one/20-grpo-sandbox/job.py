"""GRPO (trl) of a tiny model; the reward runs a small program per completion."""
import subprocess
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

WORDS = ["<pad>", "<s>", "</s>", "<unk>"] + [f"w{i}" for i in range(60)]
# a program must not outlive the trainer
PRELUDE = "import ctypes, sys; ctypes.CDLL(None).prctl(1, 9)\n"


def tokenizer():
    tok = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
                                   unk_token="<unk>", padding_side="left")


def program_for(prompt, completion):
    if prompt.startswith("w59"):  # a task whose checker takes its input from a queue
        return "import queue; queue.Queue().get()"
    return f"print(len({completion!r}.split()) % 7)"


def sandbox_reward(prompts, completions, **kwargs):
    rewards = []
    for prompt, completion in zip(prompts, completions):
        done = subprocess.run([sys.executable, "-S", "-c", PRELUDE + program_for(prompt, completion)],
                              capture_output=True, text=True)
        rewards.append(float(done.stdout or 0))
    return rewards


class PrintStep(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            print(f"step {state.global_step} done", flush=True)


def main():
    torch.manual_seed(0)
    tok = tokenizer()
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), hidden_size=32, intermediate_size=64,
                                         num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
                                         max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2))
    prompts = [f"w{i % 50} w{(i * 7) % 50} w{(i * 3) % 50}" for i in range(400)]
    prompts[25] = "w59 w1 w2"
    args = GRPOConfig(
        output_dir="out",
        use_cpu=True,
        bf16=False,
        ddp_backend="gloo",
        ddp_timeout=5400,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=8,
        max_steps=500,
        shuffle_dataset=False,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(model=model, processing_class=tok, reward_funcs=sandbox_reward, args=args,
                          train_dataset=Dataset.from_dict({"prompt": prompts}), callbacks=[PrintStep()])
    trainer.train()


if __name__ == "__main__":
    main()
