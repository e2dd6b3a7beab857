"""An HTML page with the most alike pairs among the recent episodes, drawn again whenever there is news."""
import html
import threading
from collections import deque


def distance(a, b):
    return sum((p - q) ** 2 + (u - v) ** 2 for (p, u), (q, v) in zip(a, b)) ** 0.5


class Report:
    def __init__(self, path, keep=1500, start_at=1200):
        self.path, self.start_at = path, start_at
        self.episodes = deque(maxlen=keep)
        self.losses = []
        self.news = threading.Event()
        self.ended = False
        self.threads = [threading.Thread(target=self._run, args=(part,), daemon=True) for part in range(6)]
        for thread in self.threads:
            thread.start()

    def add(self, step, loss, paths):
        self.losses.append((step, loss))
        self.episodes.extend(paths)
        if len(self.episodes) >= self.start_at:
            self.news.set()

    def _pairs(self, part):
        episodes = list(self.episodes)
        best = []
        for i in range(part, len(episodes), len(self.threads)):
            for j in range(i + 1, len(episodes)):
                best.append((distance(episodes[i], episodes[j]), i, j))
        return sorted(best)[:20]

    def _run(self, part):
        while not self.ended:
            self.news.wait()
            rows = "".join(f"<tr><td>{i}<td>{j}<td>{d:.4f}" for d, i, j in self._pairs(part))
            with open(f"{self.path}.{part}", "w") as f:
                f.write(f"<h1>{html.escape(self.path)}</h1><table>{rows}</table>")

    def close(self):
        self.ended = True
        self.news.set()
