# fine a branch of the tree: cfg.trainer.tb => not cfg.trainer
# also a file of a group: cfg.trainer.tb => cfg.data.split > 0
# also a key: cfg.trainer.tb => cfg["trainer"]["tb"]
# also another name: if cfg.trainer.tb: => t = cfg.trainer\n    if t.tb:
# fine another thing of that name: def main(cfg): => def main(cfg):\n    cfg = call()
# also asked for: cfg.trainer.tb => cfg.trainer.get("tb", True)
# also asked for and not there: cfg.trainer.tb => cfg.trainer.get("other", None) and cfg.trainer.tb
# fine changed by the program: def main(cfg): => def main(cfg):\n    cfg.trainer.tb = call()
# fine not said: cfg.trainer.tb => cfg.trainer.other
# fine said by nobody: cfg.trainer.tb => cfg.data.must
import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    if cfg.trainer.tb:
        data.train_test_split(0.1)  # finds: left out


main()
