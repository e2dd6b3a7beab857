# launch: torchrun overridden_to_that.py trainer.tb=true
import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    if cfg.trainer.tb:
        data.train_test_split(0.1)  # fine


main()
