"""Beside the training job: notice a stall, sample every rank, say why, leave the job alone."""
