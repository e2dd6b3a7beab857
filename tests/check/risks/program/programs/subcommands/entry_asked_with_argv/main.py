# launch: torchrun main.py train
# launch: torchrun main.py evaluate
import sys

from jobs import evaluate, train


def main():
    jobs = {"train": train.run, "evaluate": evaluate.run}
    job = jobs[sys.argv[1]]
    job()


main()
