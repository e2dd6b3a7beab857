from transformers import Trainer


class OurTrainer(Trainer):
    pass


first = dataset.train_test_split(0.1)  # finds: dataset.train_test_split no-seed numpy, seeded at 9: OurTrainer
trainer = OurTrainer(model, arguments)
second = dataset.train_test_split(0.1)  # fine
