"""Branches that a configuration of Hydra or OmegaConf decides: files, defaults list, words of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import Plan

FILES = {
    "conf/main.yaml": "defaults:\n  - data: small\n  - _self_\nname: x\ntrainer: {tb: false, steps: 10}\n",
    "conf/data/small.yaml": "split: 0.0\nmust: ???\n",
    "conf/data/large.yaml": "split: 0.1\n",
}
MAIN = "import hydra\n@hydra.main(version_base=None, config_path='conf', config_name='main')\ndef main(cfg):\n"
LOADED = "from omegaconf import OmegaConf\nimport sys\ndef main():\n    cfg = OmegaConf.load(sys.argv[1])\n"
NEVER = {
    "an attribute": (MAIN, "cfg.trainer.tb", ""),
    "a file of a group": (MAIN, "cfg.data.split > 0", ""),
    "overridden": (MAIN, "cfg.trainer.steps > 5", "trainer.steps=3"),
    "a key": (MAIN, "cfg['trainer']['tb']", ""),
    "asked for": (MAIN, "cfg.trainer.get('tb', True)", ""),
    "asked for, and not there": (MAIN, "cfg.trainer.get('other', None) and cfg.trainer.tb", ""),
    "another name": (MAIN + "    t = cfg.trainer\n", "t.tb", ""),
    "a file that the command names": (LOADED, "cfg.trainer.tb", "conf/main.yaml"),
}
MAYBE = {
    "another file of the group": (MAIN, "cfg.data.split > 0", "data=large"),
    "overridden to that": (MAIN, "cfg.trainer.tb", "trainer.tb=true"),
    "not said": (MAIN, "cfg.trainer.other", ""),
    "said by nobody": (MAIN, "cfg.data.must", ""),
    "changed by the program": (MAIN + "    cfg.trainer.tb = call()\n", "cfg.trainer.tb", ""),
    "another thing of that name": (MAIN + "    cfg = call()\n", "cfg.trainer.tb", ""),
    "a branch of the tree": (MAIN, "not cfg.trainer", ""),
}


def taken(folder: Path, text: str, command: str) -> bool:
    for name, told in {**FILES, "t.py": text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(told)
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder)
    ((_, look),) = collect_program.look(machine, Plan(("torchrun", "t.py", *command.split())))
    assert look.found is not None
    return "train_test_split" in look.found.files[0].text


def branch(head: str, test: str) -> str:
    return f"{head}    if {test}:\n        data.train_test_split(0.1)\nmain()\n"


@pytest.mark.parametrize(("head", "test", "command"), NEVER.values(), ids=NEVER)
def test_a_branch_that_the_configuration_excludes(head: str, test: str, command: str, tmp_path: Path) -> None:
    assert not taken(tmp_path, branch(head, test), command)


@pytest.mark.parametrize(("head", "test", "command"), MAYBE.values(), ids=MAYBE)
def test_a_branch_that_may_be_taken_stays(head: str, test: str, command: str, tmp_path: Path) -> None:
    assert taken(tmp_path, branch(head, test), command)


def test_a_configuration_that_is_handed_down(tmp_path: Path) -> None:
    text = "def use(c, t):\n    if c.trainer.tb or t.tb:\n        data.train_test_split(0.1)\n"

    assert not taken(tmp_path, f"{text}{MAIN}    use(cfg, cfg.trainer)\nmain()\n", "")
    assert taken(tmp_path, f"{text}{MAIN}    use(cfg, cfg.trainer)\n    use(call(), 1)\nmain()\n", "")
