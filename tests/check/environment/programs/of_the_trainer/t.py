# launch: accelerate launch t.py --output_dir o
from transformers import HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(args=args).train()  # finds: 1,800 s (the default of ddp_timeout)
