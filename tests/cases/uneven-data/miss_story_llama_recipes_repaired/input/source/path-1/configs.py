from dataclasses import dataclass


@dataclass
class TrainConfig:
    seed: int = 42
    batch_size_training: int = 1
    context_length: int = 64
    lr: float = 1e-3
    num_epochs: int = 1
    output_dir: str = "output"
    # seconds a rank waits in a collective
    dist_timeout: int = 10


@dataclass
class DatasetConfig:
    num_dialogs: int = 60
    test_size: float = 0.5
    max_words: int = 1500
