# launch: torchrun by_fire.py
# launch: torchrun by_fire.py --val_split 0.2
import fire


def main(val_split=0.0):
    if val_split > 0:
        data.train_test_split(0.1)  # finds: left out unless --val_split 0.2


fire.Fire(main)
