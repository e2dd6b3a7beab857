import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from tqdm import tqdm


def train(model, train_dataloader, optimizer, train_config, rank):
    for epoch in range(train_config.num_epochs):
        epoch_start_time = time.perf_counter()
        model.train()
        total_loss = 0.0
        pbar = tqdm(desc=f"Training Epoch: {epoch + 1}", total=len(train_dataloader), dynamic_ncols=True)
        for step, batch in enumerate(train_dataloader):
            loss = model(**batch).loss
            total_loss += loss.detach().float()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            pbar.update(1)
            pbar.set_description(
                f"Training Epoch: {epoch + 1}/{train_config.num_epochs}, step {step}/{len(train_dataloader)} "
                f"completed (loss: {loss.detach().float():.4f})"
            )
        pbar.close()
        epoch_time = time.perf_counter() - epoch_start_time
        train_loss = total_loss / len(train_dataloader)

        save_model_checkpoint(model, rank, train_config, epoch)
        if rank == 0:
            print(f"Epoch {epoch + 1}: train_epoch_loss={train_loss:.4f}, epoch time {epoch_time:.2f}s")


def save_model_checkpoint(model, rank, train_config, epoch):
    dist.barrier()
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state_dict = get_model_state_dict(model, options=options)
    if rank == 0:
        save_dir = Path(train_config.output_dir)
        save_dir.mkdir(parents=True, exist_ok=True)
        save_full_path = save_dir / f"llama-{epoch}.pt"
        torch.save(state_dict, save_full_path)
        print(f"model checkpoint saved for epoch {epoch} at {save_full_path}")
    dist.barrier()
