# read
_names = {"nets": ["Net"]}


def __getattr__(name): ...
