import runpy
import threading
import time
from pathlib import Path

from unhang.lab.worker import freeze_transport, wait_until


def freeze(order=Path(__file__).with_name("order")):
    while not order.exists():
        time.sleep(0.02)
    wait_until(float(order.read_text()))
    freeze_transport()


threading.Thread(target=freeze, name="fault", daemon=True).start()
runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
