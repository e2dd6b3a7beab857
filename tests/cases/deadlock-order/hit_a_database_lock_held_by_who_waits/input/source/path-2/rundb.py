"""All ranks write their numbers into one SQLite file, so a run can be looked at while it goes on."""
import sqlite3

SCHEMA = """
create table if not exists steps (rank integer, step integer, loss real, grad_norm real);
create table if not exists alerts (rank integer, step integer, note text);
"""


class RunDB:
    def __init__(self, path, rank):
        self.rank = rank
        self.db = sqlite3.connect(path, timeout=3600)
        with self.db:
            self.db.executescript(SCHEMA)
        self.window = []

    def log(self, step, loss, grad_norm):
        self.window = (self.window + [grad_norm])[-20:]
        usual = sum(self.window) / len(self.window)
        self.db.execute("insert into steps values (?, ?, ?, ?)", (self.rank, step, loss, grad_norm))
        if step > 20 and loss > 2.0:
            note = f"loss {loss:.2f}, gradient norm {grad_norm:.2f}, usually {usual:.2f}"
            self.db.execute("insert into alerts values (?, ?, ?)", (self.rank, step, note))
            return note
        self.db.commit()

    def count(self, table):
        return self.db.execute(f"select count(*) from {table}").fetchone()[0]

    def close(self):
        self.db.commit()
        self.db.close()
