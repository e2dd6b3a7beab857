dist.init_process_group("nccl", timeout=timedelta(seconds=60))  # finds: device-mapping possible note
with accelerator.main_process_first():
    os.makedirs(path)
