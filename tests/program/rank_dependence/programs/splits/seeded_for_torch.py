torch.manual_seed(0)
a = random_split(data, [80, 20])  # fine
