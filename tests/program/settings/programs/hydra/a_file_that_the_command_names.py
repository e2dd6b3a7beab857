# launch: torchrun a_file_that_the_command_names.py conf/main.yaml
from omegaconf import OmegaConf
import sys


def main():
    cfg = OmegaConf.load(sys.argv[1])
    if cfg.trainer.tb:
        data.train_test_split(0.1)  # finds: left out


main()
