torch.manual_seed(42)
random.seed(42)
