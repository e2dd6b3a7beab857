import lightning as L

trainer = L.Trainer()
trainer.save_checkpoint("x")  # fine
if trainer.is_global_zero:
    print(1)
