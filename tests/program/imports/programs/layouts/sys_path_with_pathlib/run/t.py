# launch: torchrun run/t.py
import sys
from pathlib import Path
import kept

sys.path.append(str(Path(__file__).resolve().parents[1] / "vendor"))
