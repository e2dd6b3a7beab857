import kit.work
from kit import run

run()
