import subprocess, sys

TABLE = {"fit": "kit.fit", "show": "kit.show"}


def main():
    subprocess.run([sys.executable, "-m", TABLE[sys.argv[1]]])
