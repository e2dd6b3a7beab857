# also member by extend: self.parts += [Mean()] => self.parts.extend([Mean()])
# also member by insert: self.parts += [Mean()] => self.parts.insert(0, Mean())
# fine member without a collective: Mean() => Loss()
from ranks import first, together


class Loss:
    def get(self):
        return 1


class Mean:
    def __init__(self):
        self._distributed = True

    def get(self):
        if self._distributed:
            together()


class All:
    def __init__(self):
        self.parts = [Loss()]
        self.parts += [Mean()]

    def every(self):
        for part in self.parts:
            if hasattr(part, "get"):
                part.get()


mean = All()
if first():
    mean.every()  # finds: rank-conditional-collective possible stops
