"""A loop that is in no function."""

import torch


# module level
for batch in loader:
    model(batch).backward()
dist.barrier()  # finds: after-loop
