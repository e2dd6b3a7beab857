"""Several ranks on one card: NCCL takes each process for a host of its own."""
import os
os.environ.setdefault("NCCL_HOSTID", "host" + os.environ.get("RANK", "0"))
