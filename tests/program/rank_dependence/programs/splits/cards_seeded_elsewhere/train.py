torch.cuda.manual_seed(42)
