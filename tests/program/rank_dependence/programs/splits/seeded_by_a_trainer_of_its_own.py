class Trainer:
    def __init__(self, model):
        self.model = model


trainer = Trainer(model)
second = dataset.train_test_split(0.1)  # finds: dataset.train_test_split no-seed numpy
