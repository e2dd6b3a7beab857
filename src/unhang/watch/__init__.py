"""Beside the training job: notice a stall, look at every rank, say why, leave the job alone."""
