# launch: env CUDA_VISIBLE_DEVICES=6,7,8,9 torchrun first_with_cards_by_number.py
# launch: env CUDA_VISIBLE_DEVICES=0,1 torchrun first_with_cards_by_number.py
# launch: torchrun first_with_cards_by_number.py
from transformers import TrainingArguments


def main(args):
    with args.main_process_first():  # finds: device-mapping possible note if CUDA_VISIBLE_DEVICES=6,7,8,9
        args.open()


main(1)
