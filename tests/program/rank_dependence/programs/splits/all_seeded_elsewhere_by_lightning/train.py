lightning.seed_everything(42, workers=True)
