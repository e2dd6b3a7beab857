# launch: python -m pkg.t
from .data import f
