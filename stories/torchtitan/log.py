import logging
import os

logger = logging.getLogger()


def init_logger() -> None:
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[titan] %(asctime)s - %(name)s - %(levelname)s - %(message)s"))
    logger.addHandler(handler)
    # suppress verbose torch.profiler logging
    os.environ["KINETO_LOG_LEVEL"] = "5"
