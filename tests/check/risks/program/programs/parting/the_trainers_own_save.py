import lightning as L

trainer = L.Trainer()
if trainer.is_global_zero:
    trainer.save_checkpoint("x")  # finds: rank-conditional-collective likely stops
