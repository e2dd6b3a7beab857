"""Four in a row wins on a board of four by four."""
import torch

SIZE = 4
LINES = ([[r * SIZE + c for c in range(SIZE)] for r in range(SIZE)]
         + [[r * SIZE + c for r in range(SIZE)] for c in range(SIZE)]
         + [[i * SIZE + i for i in range(SIZE)], [i * SIZE + SIZE - 1 - i for i in range(SIZE)]])


class Board:
    def __init__(self, cells=(0,) * SIZE * SIZE, turn=1):
        self.cells, self.turn = cells, turn

    def moves(self):
        return [i for i, c in enumerate(self.cells) if c == 0]

    def after(self, move):
        cells = list(self.cells)
        cells[move] = self.turn
        return Board(tuple(cells), -self.turn)

    def winner(self):
        for line in LINES:
            total = sum(self.cells[i] for i in line)
            if abs(total) == SIZE:
                return 1 if total > 0 else -1
        return 0


def features(board):
    """The stones of the one to move and of the other one."""
    cells = torch.tensor(board.cells) * board.turn
    return torch.cat([(cells == 1).float(), (cells == -1).float()])
