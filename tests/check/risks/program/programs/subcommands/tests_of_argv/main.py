# launch: torchrun main.py train x.yaml
# launch: torchrun main.py export x.yaml
import sys


def launch():
    command = sys.argv.pop(1) if len(sys.argv) > 1 else "help"
    if command == "help":
        print("train, export")
    elif command == "train":
        from jobs.train import run

        run()
    elif command in ("export", "merge"):
        from jobs.export import run

        run()


launch()
