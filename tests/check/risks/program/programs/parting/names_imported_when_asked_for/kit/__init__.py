_table = {"run": ".work"}


def __getattr__(name):
    return import_module(_table[name], __name__)
