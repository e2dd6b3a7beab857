"""Splits that every rank draws for itself."""


def main():
    x = random_split(data, [80, 20])  # finds: random_split no-seed torch
    x = torch.utils.data.random_split(data, [80, 20])  # finds: torch.utils.data.random_split no-seed torch
    x = train_test_split(rows)  # finds: train_test_split no-seed numpy
    x = rows.train_test_split(test_size=0.1)  # finds: rows.train_test_split no-seed numpy
    x = random.shuffle(rows)  # finds: random.shuffle no-seed python
    x = np.random.permutation(10)  # finds: np.random.permutation no-seed numpy
    x = torch.randperm(10)  # finds: torch.randperm no-seed torch
    x = random.sample(rows, 5)  # finds: random.sample no-seed python
    x = data.shuffle()  # finds: data.shuffle no-seed
    x = DataLoader(data, shuffle=True)  # finds: DataLoader no-seed torch
