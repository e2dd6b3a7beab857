# launch: torchrun main.py tune --data rows
# launch: torchrun main.py pre-train --data rows
# launch: torchrun main.py serve
from jsonargparse import CLI

from jobs import pretraining, serving
from jobs.tuning import setup as tune

COMMANDS = {
    "tune": tune,
    "pre_train": pretraining.setup,
    "serve": serving.setup,
}


def main():
    assert set(COMMANDS) == {"tune", "pre_train", "serve"}
    CLI(COMMANDS)


if __name__ == "__main__":
    main()
