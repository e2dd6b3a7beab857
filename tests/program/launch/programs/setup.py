# names the command when it is run
from setuptools import setup
def scripts():
    return ["train-it = pkg.cli:main"]
setup(entry_points={"console_scripts": scripts()})
