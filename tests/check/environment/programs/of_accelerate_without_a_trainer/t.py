# launch: accelerate launch t.py --output_dir o
from accelerate import Accelerator

accelerator = Accelerator()  # finds: 600 s (the default of init_process_group(timeout=))
