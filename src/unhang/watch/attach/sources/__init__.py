"""Who is asked about a job that was started without us: NCCL, torch, the GPUs, the recorder's files."""
