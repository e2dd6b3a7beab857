# also listing by os: glob.glob(path + "/*") => [os.path.join(path, one) for one in os.listdir(path)]
# fine listing sorted: glob.glob(path + "/*") => sorted(os.listdir(path))
# fine listing sorted later: found = glob.glob(path + "/*")  # fine => found = os.listdir(path)\n    found.sort()
import os, glob


class TextDataset:
    pass


def files(path):
    found = glob.glob(path + "/*")  # finds: uneven-data possible note "without sorting"
    return found


data = TextDataset(files("x"))
import torch.distributed
