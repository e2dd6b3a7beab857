"""The cards: which the job would use, nodes and ranks beside each other, what links and fabrics are missed.

Whole machines stand in ``tests/machines``; here is what a folder cannot show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.check.told_machine import MACHINES, Told, ask, card, findings, situation
from tests.work import calls_of
from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.devices.chosen_cards import (
    better_choice,
    find_chosen_cards,
    is_crowded,
    ranks_here,
    ranks_to_start,
)
from unhang.check.devices.devices import (
    CardProcess,
    Cards,
    CardTopology,
    DeviceSelection,
    NcclLibraries,
    NcclLibrary,
    NvidiaDriver,
    NvlinkFabric,
    NvLinks,
    PciCard,
    PciCards,
    TorchCudaBuild,
)
from unhang.check.judge import judge
from unhang.evidence.items import SourceFile
from unhang.findings import Severity, Source
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import CommandOutput, Machine, StoredMachine
from unhang.program.launch.launch import Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProgramSource
from unhang.sentences import say


@pytest.mark.parametrize(
    ("words", "seen", "unknown", "twice"),
    [
        (None, (0, 1, 2, 3), "", ""),
        (("3", "1"), (3, 1), "", ""),
        (("0", "9", "1"), (0,), "9", ""),
        (("0", "-1", "1"), (0,), "-1", ""),
        (("1", "1"), (), "", "1"),
        (("GPU-2aaa",), (2,), "", ""),
        (("GPU-",), (), "GPU-", ""),  # not the only card whose UUID begins so
        (("0", "GPU-0aaa-0"), (), "", "GPU-0aaa-0"),
        ((), (), "", ""),
    ],
)
def test_the_list_is_read_as_the_runtime_reads_it(
    words: tuple[str, ...] | None, seen: tuple[int, ...], unknown: str, twice: str
) -> None:
    chosen = find_chosen_cards(situation([card(i) for i in range(4)], words))

    assert chosen is not None
    assert (tuple(one.index for one in chosen.visible), chosen.unknown, chosen.twice) == (seen, unknown, twice)


def test_fewer_processes_than_cards_use_the_first() -> None:
    here = situation([card(i) for i in range(4)], facts=(Launch("torchrun", processes=2),))

    chosen = find_chosen_cards(here)

    assert chosen is not None
    assert chosen.indices == (0, 1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("deepspeed", "--include", "localhost:2,3", "t.py"), ("2", "3")),
        (("accelerate", "launch", "--gpu_ids=1,2", "t.py"), ("1", "2")),
        (("accelerate", "launch", "--gpu_ids", "all", "t.py"), ("5",)),
        (("CUDA_VISIBLE_DEVICES=0,1", "torchrun", "t.py"), ("0", "1")),
        (("srun", "-n", "4", "accelerate", "launch", "--gpu_ids=1,2", "t.py"), ("1", "2")),
        (("torchrun", "t.py", "--include", "localhost:2,3"), ("5",)),
        (("deepspeed", "--include=n2:4,5@localhost:6,7", "t.py"), ("6", "7")),
        (("deepspeed", "--include", "n2:4,5@n3:6,7", "t.py"), ("5",)),
        (("deepspeed", "--include", "n2:4,5", "t.py"), ("4", "5")),
        (("deepspeed", "--exclude", "localhost:0,1,2,3,4,5,6,7,8,9", "t.py"), ("10", "11")),
        (("deepspeed", "--exclude", "n2:0@n3", "t.py"), ("5",)),
        (("deepspeed", "--num_gpus", "2", "t.py"), None),  # it says that it ignores the variable
        (("deepspeed", "t.py"), ("5",)),
        (("accelerate", "launch", "--config_file", "acc.yaml", "t.py"), ("6", "7")),
        (("accelerate", "launch", "--config_file", "acc.yaml", "--gpu_ids", "all", "t.py"), ("5",)),
        (("srun", "-n", "2", "--gpu-bind=map_gpu:3,1*2", "python", "t.py"), ("3", "1")),
        (("srun", "-n", "2", "--gpu-bind=verbose,mask_gpu:0x5,0x8", "python", "t.py"), ("0", "2", "3")),
        (("srun", "-n", "2", "--gpu-bind=single:1", "python", "t.py"), ("5",)),
    ],
)
def test_a_command_may_name_cards(command: tuple[str, ...], words: tuple[str, ...] | None, tmp_path: Path) -> None:
    devices = next(check for check in ALL_INSPECTIONS if check.name == "devices")
    (tmp_path / "acc.yaml").write_text("distributed_type: MULTI_GPU\ngpu_ids: 6,7\n")
    twelve = CommandOutput((MACHINES / "l20_two_numa" / "smi_query.csv").read_text(), 0)
    machine = Told(tmp_path, {"nvidia-smi --query-gpu=index": twelve}, CUDA_VISIBLE_DEVICES="5")
    machine.folder = "/"

    found, _ = inspect_node(machine, PlannedJob(command), [devices])

    choice = found.found(DeviceSelection)
    assert choice is not None
    assert choice.words == words


@pytest.mark.parametrize(
    ("parts", "processes", "crowded"),
    [
        ({}, (), False),
        ({"used": 600 << 20}, (), False),  # a driver in persistence mode, a display
        ({"used": 5 << 30}, (), True),  # a container does not see whose it is
        ({"busy": 90}, (), True),
        ({"used": 300 << 20}, (CardProcess("GPU-0aaa-0", 7, "python", 290 << 20),), True),
        ({"used": 40 << 20}, (CardProcess("GPU-0aaa-0", 7, "Xorg", 40 << 20),), False),
        ({"used": 300 << 20}, (CardProcess("GPU-9", 7, "python", 290 << 20),), False),
    ],
)
def test_when_a_card_is_crowded(parts: dict[str, int], processes: tuple[CardProcess, ...], crowded: bool) -> None:
    one = card(0, **parts)

    assert is_crowded(Cards((one,), processes), one) is crowded


def test_a_better_choice_is_idle_of_one_kind_and_nearer() -> None:
    cards = [card(0, busy=100), *(card(i) for i in range(1, 4)), card(4, "NVIDIA A40")]
    ways = CardTopology({(i, j): "PIX" if (i < 2) == (j < 2) else "SYS" for i in range(5) for j in range(5) if i != j})
    here = situation(cards, ("1", "2"))
    chosen = find_chosen_cards(here)
    assert chosen is not None

    better = better_choice(Cards(tuple(cards)), ways, chosen)

    assert better is not None
    assert [one.index for one in better] == [2, 3]


@pytest.mark.parametrize("names", ["AABB", "BBAA"])
def test_of_as_many_cards_of_two_kinds_the_kind_of_the_first_is_taken(names: str) -> None:
    cards = [card(index, name) for index, name in enumerate(names)]
    chosen = find_chosen_cards(situation(cards, ("1", "2")))
    assert chosen is not None

    better = better_choice(Cards(tuple(cards)), CardTopology(), chosen)

    assert better is not None
    assert [one.index for one in better] == [0, 1]


def test_cards_of_a_scheduler_are_not_exchanged() -> None:
    machine = StoredMachine(MACHINES / "l20_two_numa")
    machine.environment = {**machine.environment, "SLURM_JOB_ID": "71", "CUDA_VISIBLE_DEVICES": "6,7,8,9"}

    verdict = ask(machine, only=("devices", "topology"))

    assert verdict.suggested is None
    assert not any("CUDA_VISIBLE_DEVICES" in remedy.set for one in verdict.findings for remedy in one.remedies)


def test_choosing_among_many_cards_is_little_more_work_than_among_few() -> None:
    def choose(count: int) -> None:
        cards = [card(i) for i in range(count)]
        ways = CardTopology({(i, j): "SYS" for i in range(count) for j in range(count) if i != j})
        chosen = find_chosen_cards(situation(cards, [str(i) for i in range(0, count, 2)]))
        assert chosen is not None
        better_choice(Cards(tuple(cards)), ways, chosen)

    assert calls_of(lambda: choose(64)) < 2 * calls_of(lambda: choose(16))


def test_where_all_ways_are_alike_nothing_is_better() -> None:
    cards = [card(i) for i in range(6)]
    ways = CardTopology({(i, j): "NV18" for i in range(6) for j in range(6) if i != j})
    chosen = find_chosen_cards(situation(cards, ("1", "4")))
    assert chosen is not None

    assert better_choice(Cards(tuple(cards)), ways, chosen) is None


def test_where_nvidia_smi_tells_no_ways_the_bus_tells_the_processors() -> None:
    cards = [card(i) for i in range(4)]
    bus = PciCards(tuple(PciCard(one.bus, "nvidia", True, one.index // 2) for one in cards))
    blind = {CardTopology: InspectionResult(because=say("nvidia-smi does not show it"), how="nvidia-smi topo -m")}
    here = situation(cards, ("1", "2"), facts=(bus,))

    verdict = judge([replace(here, results={**here.results, **blind})], ["topology"])

    (found,) = verdict.findings
    assert found.remedies[0].set == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert "How the cards are connected" in {str(gap.what) for gap in verdict.not_checked}
    unknown = PciCards((PciCard(cards[0].bus, "nvidia", True, 0),))
    assert findings(situation(cards, ("1", "2"), facts=(unknown,))) == ()


def test_two_ranks_that_see_the_same_single_card() -> None:
    cards = [card(0), card(1)]
    ranks = [situation(cards, ("0",), rank=0), situation(cards, ("0",), rank=1), situation(cards, ("1",), rank=2)]
    elsewhere = situation(cards, ("0",), rank=3, node="h2")

    (found,) = findings(*ranks, elsewhere)

    assert found.ranks == (0, 1)
    assert found.nodes == ("h1",)
    assert "ranks 0, 1 would use the same card" in str(found.summary)


def test_ranks_that_each_take_their_own_of_all_cards_are_fine() -> None:
    cards = [card(0), card(1)]

    assert findings(*(situation(cards, rank=rank, local_rank=rank) for rank in range(2))) == ()


def test_a_node_with_fewer_cards_is_named() -> None:
    nodes = [situation([card(i) for i in range(4 if node != "h2" else 3)], node=node) for node in ("h1", "h2", "h3")]

    (found,) = findings(*nodes)

    assert (found.nodes, found.severity) == (("h2",), Severity.STOPS)
    assert "h2 has 3 × NVIDIA L20, the other nodes have 4 × NVIDIA L20" in str(found.summary)


def test_a_node_with_other_cards_slows() -> None:
    nodes = [
        situation([card(0, "NVIDIA A40" if node == "h3" else "NVIDIA L20")], node=node) for node in ("h1", "h2", "h3")
    ]

    assert [(found.nodes, found.severity) for found in findings(*nodes)] == [(("h3",), Severity.SLOWS)]


def test_nodes_with_different_drivers_and_different_nccl() -> None:
    def node(name: str, driver: str, nccl: str) -> NodeInspection:
        library = NcclLibraries((NcclLibrary("nvidia-nccl-cu12", "wheel", nccl),))
        return NodeInspection(
            name,
            results={NvidiaDriver: InspectionResult(NvidiaDriver(driver)), NcclLibraries: InspectionResult(library)},
        )

    found = findings(
        node("h1", "550.90.07", "2.27.3"), node("h2", "550.90.07", "2.27.3"), node("h3", "535.54.03", "2.21.5")
    )

    assert sorted((one.subject, one.nodes, one.severity) for one in found) == [
        ("driver", ("h3",), Severity.SLOWS),
        ("nccl", ("h3",), Severity.STOPS),
    ]


@pytest.mark.parametrize(
    ("driver", "cuda", "compat", "certainty"),
    [
        ("525.60.13", "12.8", "", None),
        ("580.65.06", "12.8", "", None),  # newer drivers run older CUDA
        ("520.61.05", "12.1", "", "likely"),
        ("535.183.01", "13.0", "", "likely"),
        ("535.183.01", "13.0", "/usr/local/cuda/compat", "possible"),
        ("535.183.01", "14.0", "", None),  # nothing is known of it
    ],
)
def test_how_old_a_driver_may_be(driver: str, cuda: str, compat: str, certainty: str | None) -> None:
    results = {
        NvidiaDriver: InspectionResult(NvidiaDriver(driver, compat)),
        TorchCudaBuild: InspectionResult(TorchCudaBuild(cuda, "torch")),
    }

    found = findings(NodeInspection("h1", results=results))

    assert [one.certainty.value for one in found] == ([] if certainty is None else [certainty])


def test_nccl_preloaded_is_worse_than_nccl_in_a_path(tmp_path: Path) -> None:
    wheel = NcclLibrary("nvidia-nccl-cu12", "wheel", "2.27.3")

    def severity(where: str, version: str) -> list[Severity]:
        library = NcclLibraries((wheel, NcclLibrary("/x/libnccl.so.2", where, version)))
        return [
            one.severity for one in findings(NodeInspection("h1", results={NcclLibraries: InspectionResult(library)}))
        ]

    assert severity("LD_PRELOAD", "2.18.5") == [Severity.SLOWS]
    assert severity("LD_LIBRARY_PATH", "2.18.5") == [Severity.NOTE]
    assert severity("LD_LIBRARY_PATH", "2.27.3") == []
    assert severity("ldconfig", "2.18.5") == []


def test_a_fabric_that_is_ready_in_a_guest_whose_host_runs_the_manager(tmp_path: Path) -> None:
    stored = StoredMachine(MACHINES / "h100_nvswitch")

    class Guest(StoredMachine):
        def command(self, words: Sequence[str], limit_s: float = 8.0) -> InspectionResult[CommandOutput]:
            return (
                InspectionResult(CommandOutput("inactive\n", 3))
                if words[0] == "systemctl"
                else super().command(words, limit_s)
            )

    verdict = ask(Guest(MACHINES / "h100_nvswitch"), only=("topology",))

    assert stored.node
    assert verdict.findings == ()
    assert any("fabric is ready" in str(item.what) for item in verdict.checked)


@pytest.mark.parametrize(
    ("links", "switched", "subjects"),
    [
        ({0: (4, 0), 1: (4, 0), 2: (0, 4)}, False, []),  # the third has no bridge
        ({0: (4, 0), 1: (3, 1)}, False, ["card 1"]),
        ({0: (18, 0), 1: (0, 18)}, True, ["card 1"]),
        ({0: (0, 4), 1: (0, 4)}, False, []),
    ],
)
def test_which_links_are_missed(links: dict[int, tuple[int, int]], switched: bool, subjects: list[str]) -> None:
    fabric = InspectionResult(NvlinkFabric("active") if switched else None)
    here = NodeInspection("h1", results={NvLinks: InspectionResult(NvLinks(links)), NvlinkFabric: fabric})

    assert [found.subject for found in findings(here) if found.check == "topology"] == subjects


def test_a_fabric_whose_switches_do_not_stand_on_the_bus() -> None:
    class Hidden(StoredMachine):
        def entries(self, path: str) -> InspectionResult[tuple[str, ...]]:
            result = super().entries(path)
            cards = tuple(name for name in result.found or () if not name.startswith("0000:0"))
            return InspectionResult(cards) if path == "/sys/bus/pci/devices" else result

    healthy, ill = (ask(Hidden(MACHINES / name), only=("topology",)) for name in ("h100_nvswitch", "h100_ill"))

    assert any("fabric is ready" in str(item.what) for item in healthy.checked)
    assert "fabric manager" in {found.subject for found in ill.findings}


PROGRAM = "import torch.distributed as dist\ndist.init_process_group({args})\n{more}dist.barrier()\n"


@pytest.mark.parametrize(
    ("args", "more", "named"),
    [
        ("'nccl'", "", True),
        ("", "", True),
        ("'gloo'", "", False),
        ("backend='gloo'", "", False),
        ("'nccl', device_id=d", "", False),
        ("'nccl', **options", "", False),
        ("'nccl'", "torch.cuda.set_device(0)\n", False),
        ("'nccl'", "from accelerate import Accelerator\n", False),
        ("'nccl'", "dist.barrier(device_ids=[0])\n", True),
    ],
)
def test_a_program_that_never_names_its_card(
    args: str, more: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = PROGRAM.format(args=args, more=more)
    (tmp_path / "t.py").write_text(source)

    verdict = ask(Machine(environment={}), "torchrun", "t.py", only=("program",))

    told = [one for one in verdict.findings if "which card" in str(one.summary)]
    assert [(one.severity, one.where.line if one.where else 0) for one in told] == (
        [(Severity.NOTE, source.count("\n"))] if named else []
    )


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (("deepspeed", "--include", "localhost:6,7,8,9", "t.py"), "--include localhost:4,5,6,7"),
        (("accelerate", "launch", "--gpu_ids=6,7,8,9", "t.py"), "--gpu_ids 4,5,6,7"),
        (("srun", "-n", "4", "--gpu-bind=map_gpu:6,7,8,9", "python", "t.py"), "--gpu-bind=map_gpu:4,5,6,7"),
    ],
)
def test_nearer_cards_are_named_as_the_command_names_cards(command: tuple[str, ...], change: str) -> None:
    verdict = ask(StoredMachine(MACHINES / "l20_two_numa"), *command, only=("topology",))

    (found,) = [one for one in verdict.findings if one.check == "topology"]
    assert (str(found.remedies[0].change), dict(found.remedies[0].set)) == (change, {})
    assert verdict.suggested is None
    because = [str(one) for one in found.because]
    assert because[:2] == ["cards 6, 7 are on NUMA node 0", "cards 8, 9 are on NUMA node 1"]
    assert "cards 6, 7 share a PCIe switch" in because


@pytest.mark.parametrize(
    ("launch", "text", "ranks"),
    [
        (Launch("deepspeed", nodes=1), "", 3),
        (Launch("deepspeed", {"exclude": "localhost:0"}, nodes=1), "", None),
        (Launch("deepspeed", nodes=1, processes=2), "", 2),
        (Launch("python", program="deepy.py"), "deepspeed.launcher.runner.main(args)", 3),
        (Launch("python", program="train.py"), "train()", None),
        (Launch("torchrun", program="train.py"), "", None),
    ],
)
def test_deepspeed_starts_one_process_for_each_card_where_nothing_says_otherwise(
    launch: Launch, text: str, ranks: int | None
) -> None:
    program = ProgramSource((SourceFile(Source("deepy.py"), "deepy.py", text),))

    assert ranks_to_start(situation([card(0), card(1), card(2)], facts=(launch, program))) == ranks


@pytest.mark.parametrize(
    ("text", "arguments", "ranks"),
    [
        ("mp.spawn(run, args=(world_size, args), nprocs=world_size, join=True)", {"world_size": "8"}, 8),
        ("mp.spawn(run, args=(args,), nprocs=args.gpus)", {"gpus": "2"}, 2),
        ("mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))", {"world_size": "1"}, None),
        ("mp.spawn(run, nprocs=a)\nmp.spawn(score, nprocs=b)", {"a": "2", "b": "4"}, None),
        ("mp.spawn(run, nprocs=args.world_size // args.nodes)", {"world_size": "8"}, None),
        ("mp.spawn(run, nprocs=len(gpus))", {"gpus": "2", "len": "2"}, None),
        ("run(world_size)", {"world_size": "8"}, None),
    ],
)
def test_a_program_spawns_as_many_ranks_as_the_setting_says(
    text: str, arguments: dict[str, str], ranks: int | None
) -> None:
    program = ProgramSource((SourceFile(Source("train.py"), "train.py", text),))
    launch = Launch("python", program="train.py", arguments=arguments)

    assert ranks_here(situation([card(0), card(1)], facts=(launch, program))) == ranks


def test_a_full_card_stops_no_job_that_does_not_say_which_cards_it_uses() -> None:
    cards = [card(0), card(1, used=47 << 30)]
    told = {
        launch.processes: [
            one.severity for one in findings(situation(cards, facts=(launch,))) if "in use" in str(one.summary)
        ]
        for launch in (Launch("python", program="train.py"), Launch("torchrun", program="train.py", processes=2))
    }

    assert told == {None: [Severity.NOTE], 2: [Severity.STOPS]}
