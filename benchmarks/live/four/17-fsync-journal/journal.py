"""A journal of transitions that can be replayed after a crash; falls are on disk before the next step."""
import json
import os


class Journal:
    def __init__(self, path):
        self.path = path
        self.file = open(path, "w")
        self.folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        self.lines = 0

    def append(self, step, transitions):
        for transition in transitions:
            self.file.write(json.dumps([step, transition]) + "\n")
            self.lines += 1
            if transition[2] < -2.0:
                self.commit()

    def commit(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        with open(self.path + ".count.tmp", "w") as f:
            f.write(str(self.lines))
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.path + ".count.tmp", self.path + ".count")
        os.fsync(self.folder)

    def close(self):
        self.commit()
        self.file.close()
        os.close(self.folder)
