import sys, torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, LlamaConfig, LlamaForCausalLM
mode = sys.argv[1]
texts = [f"user: add {a} and {b} assistant: {a+b}" for a in range(12) for b in range(12)]
tk = Tokenizer(models.WordLevel(unk_token="<unk>")); tk.pre_tokenizer = pre_tokenizers.Whitespace()
tk.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>", "<eos>"]))
tok = PreTrainedTokenizerFast(tokenizer_object=tk, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>", padding_side="left")
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tok), hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128, pad_token_id=tok.pad_token_id, eos_token_id=tok.eos_token_id, bos_token_id=None))
if mode == "sft":
    from trl import SFTTrainer, SFTConfig
    cfg = SFTConfig(output_dir="sft_out", num_train_epochs=2, per_device_train_batch_size=8, logging_steps=3, use_cpu=True, bf16=False, report_to="none", max_length=64)
    t = SFTTrainer(model=model, args=cfg, train_dataset=Dataset.from_list([{"text": x} for x in texts]), processing_class=tok)
else:
    from trl import GRPOTrainer, GRPOConfig
    def reward_len(completions, **kw): return [-abs(6 - len(c.split())) * 0.1 for c in completions]
    cfg = GRPOConfig(output_dir="grpo_out", max_steps=4, per_device_train_batch_size=4, num_generations=4, max_completion_length=8, logging_steps=1, use_cpu=True, bf16=False, report_to="none", gradient_accumulation_steps=1)
    t = GRPOTrainer(model=model, reward_funcs=reward_len, args=cfg, train_dataset=Dataset.from_list([{"prompt": x.split(" assistant")[0]} for x in texts]), processing_class=tok)
t.train()
t.save_model(cfg.output_dir)
print("Training complete, model saved to", cfg.output_dir)
