a = random_split(d, n, generator=torch.Generator().manual_seed(0))  # fine
b = torch.randperm(3)  # finds: torch.randperm no-seed torch
