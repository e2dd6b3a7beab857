"""Teacher service: logits for a batch of inputs; ends after some requests, since the big model leaks memory."""
import os
import sys
from multiprocessing.connection import Listener

import torch
from torch import nn


def main(port_file, limit):
    torch.set_num_threads(1)
    torch.manual_seed(77)
    net = nn.Sequential(nn.Linear(32, 200), nn.Tanh(), nn.Linear(200, 8)).requires_grad_(False)
    with Listener(("127.0.0.1", 0), backlog=8) as listener:
        with open(port_file + ".new", "w") as f:
            f.write(str(listener.address[1]))
        os.replace(port_file + ".new", port_file)
        for _ in range(limit):
            with listener.accept() as conn:
                conn.send(net(torch.tensor(conn.recv())).tolist())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
