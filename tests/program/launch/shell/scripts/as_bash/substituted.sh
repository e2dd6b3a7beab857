HERE=$(cd "$(dirname "$0")" && pwd)
torchrun t.py --here $HERE --name `basename $0 .sh`
