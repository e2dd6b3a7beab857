if accelerator.is_main_process:
    accelerator.wait_for_everyone()  # finds: rank-conditional-collective likely stops
