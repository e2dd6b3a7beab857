"""Self-play on a small board game: two learners (all_reduce), a match against the last champion now and then."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from game import Board, features

MATCH_EVERY, DECIDED = 60, 12


def make_net():
    return nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 1))


class Player:
    """Takes a win, gives none away if it can, else asks the net; with some chance it plays at random."""

    def __init__(self, net, rng, epsilon):
        self.net, self.rng, self.epsilon = net, rng, epsilon

    @torch.no_grad()
    def move(self, board):
        options = board.moves()
        if self.rng.random() < self.epsilon:
            return self.rng.choice(options)
        after = [board.after(m) for m in options]
        for move, state in zip(options, after):
            if state.winner():
                return move
        safe = [i for i, s in enumerate(after) if not any(s.after(m).winner() for m in s.moves())]
        if safe:
            options, after = [options[i] for i in safe], [after[i] for i in safe]
        values = self.net(torch.stack([features(s) for s in after])).squeeze(1)
        return options[int(values.argmin())]


def play(first, second):
    """1 if the first player wins, -1 if the second does, 0 for a draw; and the boards of the game."""
    board, boards = Board(), []
    while not board.winner() and board.moves():
        player = first if board.turn == 1 else second
        board = board.after(player.move(board))
        boards.append(board)
    return board.winner(), boards


def match(net, champion, rng, epsilon):
    """Score of the new net over the first DECIDED games that are not drawn."""
    new, old = Player(net, rng, epsilon), Player(champion, rng, epsilon)
    won = games = decided = 0
    while decided < DECIDED:
        result = play(new, old)[0] if games % 2 == 0 else -play(old, new)[0]
        games += 1
        decided += result != 0
        won += result > 0
    return won / decided, games


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net, champion = make_net(), make_net()
    champion.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    rng = random.Random(rank)
    for step in range(1, 1001):
        result, boards = play(Player(net, rng, 0.2), Player(net, rng, 0.2))
        x = torch.stack([features(b) for b in boards])
        y = torch.tensor([[float(result * b.turn)] for b in boards])
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        time.sleep(0.03)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} moves {len(boards)}", flush=True)
        if step % MATCH_EVERY == 0:
            better = torch.zeros(1)
            if rank == 0:
                score, games = match(net, champion, rng, epsilon=max(0.0, 0.6 - step / 300))
                print(f"step {step}: {score:.2f} against the champion in {games} games", flush=True)
                better[0] = score > 0.55
            dist.broadcast(better, src=0)
            if better:
                champion.load_state_dict(net.state_dict())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
