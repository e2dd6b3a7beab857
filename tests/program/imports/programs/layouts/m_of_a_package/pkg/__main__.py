# launch: python -m pkg
from pkg import a
