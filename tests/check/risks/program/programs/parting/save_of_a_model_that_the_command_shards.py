# launch: torchrun --nproc_per_node 2 save_of_a_model_that_the_command_shards.py
# launch: torchrun --nproc_per_node 2 save_of_a_model_that_the_command_shards.py --fsdp full_shard
# launch: torchrun --nproc_per_node 2 save_of_a_model_that_the_command_shards.py --deepspeed z.json
from transformers import Trainer

trainer = Trainer()
if trainer.is_world_process_zero():
    trainer.save_model("x")  # finds: rank-conditional-collective likely stops if --fsdp full_shard or --deepspeed z.json
