# a command that starts a list of words
import subprocess, sys
def main():
    cmd = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", f"{2 + 2}", *extra(), "-m", "pkg.train"]
    subprocess.Popen(cmd + sys.argv[1:])
