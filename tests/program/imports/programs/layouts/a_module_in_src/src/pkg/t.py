# launch: python -m pkg.t
import pkg.deep.one
