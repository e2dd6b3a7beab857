"""Self-training of a tiny llama: every 20 steps each rank samples an answer and learns from it."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, EOS, WINDOW = 64, 2, 48


def build():
    torch.manual_seed(0)
    cfg = LlamaConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                      num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=128,
                      bos_token_id=1, eos_token_id=EOS, pad_token_id=0)
    return LlamaForCausalLM(cfg)


@torch.no_grad()
def sample_answer(model, prompt, banned):
    model.eval()
    ids = prompt.clone()
    while True:
        logits = model(input_ids=ids[:, -WINDOW:]).logits[:, -1]
        logits[:, banned] = float("-inf")
        token = torch.multinomial(logits.softmax(-1), 1)
        ids = torch.cat([ids, token], 1)
        if token.item() == EOS:
            break
    model.train()
    return ids


def banned_tokens(round_no, rank):
    # template of the round; the second template of rank 1 forbids all control tokens
    return [0, 1, 2] if round_no == 2 and rank == 1 else [0, 1]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=90))
    rank = dist.get_rank()
    model = DDP(build())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    data = torch.randint(3, VOCAB, (1, 32))
    for step in range(1, 2001):
        batch = torch.randint(3, VOCAB, (4, 32))
        batch[0] = data[0, -32:]
        loss = model(input_ids=batch, labels=batch).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 20 == 0:
            ids = sample_answer(model.module, data[:, :8], banned_tokens(step // 20, rank))
            print(f"[rank {rank}] step {step} answer of {ids.shape[1]} tokens", flush=True)
            data = torch.nn.functional.pad(ids, (32, 0), value=3)[:, -32:]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
