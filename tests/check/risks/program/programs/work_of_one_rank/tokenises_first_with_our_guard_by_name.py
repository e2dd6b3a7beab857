dist.init_process_group("nccl", timeout=timedelta(seconds=60))  # finds: device-mapping possible note
from unhang import rank_zero_first

from datasets import load_dataset


def get(args, data):
    with rank_zero_first(desc="load"):
        raw = load_dataset("json", data_files=data)
    with rank_zero_first(desc="tokenise"):
        return raw.map(encode, batched=True)
