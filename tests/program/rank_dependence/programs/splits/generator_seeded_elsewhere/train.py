generator = torch.Generator().manual_seed(42)
