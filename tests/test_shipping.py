"""What is shipped: names that every file system takes, bounded dependencies, a wheel that is the same twice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
LONGEST_PATH = 200
"""Windows takes 260 characters with the folder of the clone."""


def refused(paths: Iterable[str]) -> list[str]:
    """Paths that Windows or macOS do not take, or take for another one."""
    paths = list(paths)
    same = Counter(path.lower() for path in paths)
    return [
        path
        for path in paths
        if same[path.lower()] > 1
        or len(path) > LONGEST_PATH
        or any(
            re.search(r'[<>:"|?*\\\x00-\x1f]', part) or part.endswith((".", " ")) or DEVICES.match(part)
            for part in path.split("/")
        )
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Wheel and sdist, built twice."""
    folders = [tmp_path_factory.mktemp("dist") for _ in range(2)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    for folder in folders:
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=200)
    return folders


def members(path: Path) -> list[str]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return [name for name in wheel.namelist() if not name.endswith("/")]
    with tarfile.open(path) as archive:
        return [member.name for member in archive if not member.isdir()]


def test_a_name_that_some_system_refuses_is_seen() -> None:
    bad = ["a/0000:17:00.0/x", "b/aux.log", "c/what?", "d/end.", "E/f", "e/F"]
    assert refused([*bad, "g/fine%3A.txt"]) == bad


def test_the_repository_can_be_cloned_anywhere() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert refused(filter(None, listed.stdout.split("\0"))) == []


def test_wheel_and_sdist_can_be_unpacked_anywhere(built: list[Path]) -> None:
    for path in built[0].iterdir():
        names = members(path)
        assert len(names) > 500
        assert refused(names) == []
        assert not [name for name in names if re.search(r"(^|/)(\.venv|\.git|__pycache__|\.mypy_cache)/", name)]


def test_two_builds_give_the_same_bytes(built: list[Path]) -> None:
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in built)
    assert len(one) == 2
    assert one == other


def test_the_wheel_works_alone_and_without_torch(built: list[Path], tmp_path: Path) -> None:
    (wheel,) = built[0].glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    log = tmp_path / "rank0.log"
    log.write_text("[rank0]: RuntimeError: NCCL error: unhandled system error\nRuntimeError: x\n", encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); sys.modules['torch'] = None\n"
        "import unhang; assert 'site' in unhang.__file__\nfrom unhang.cli.main import main; main()"
    )
    for words, expected in ((("diagnose", str(log)), {0, 1, 2}), (("explain", "Xid", "79"), {0})):
        done = subprocess.run([sys.executable, "-I", "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode in expected, done.stderr
        assert "mistake" not in done.stderr
        assert len(done.stdout) > 40


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    for name in [*PROJECT["project"]["dependencies"], *(one for group in extras.values() for one in group)]:
        wanted = name.partition(";")[0]
        if wanted.startswith("unhang-"):  # packages of this repository, of the same version
            continue
        assert ">=" in wanted, name
        assert "<" in wanted or wanted.startswith("torch"), name


def test_the_lock_holds_what_the_tests_are_run_with() -> None:
    locked = dict(
        re.match(r"([\w.-]+)==(\S+)", line).groups()  # type: ignore[union-attr]
        for line in (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    groups = PROJECT["dependency-groups"]
    wanted = {re.match(r"[\w.-]+", one).group().lower() for one in groups["dev"] + groups["stories"]}  # type: ignore[union-attr]
    wanted |= {re.match(r"[\w.-]+", one).group().lower() for one in PROJECT["project"]["dependencies"]}  # type: ignore[union-attr]
    assert wanted - {name.lower() for name in locked} == set()
    assert not [name for name in locked if name == "torch" or name.startswith(("nvidia-", "triton"))]
    assert "scripts/constraints.txt" in (ROOT / "scripts" / "make_environment.sh").read_text(encoding="utf-8")


def test_workflows_run_fixed_versions_with_few_rights() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"release", "tests"}
    for path in WORKFLOWS:
        flow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert flow["permissions"] == {"contents": "read"}, path
        for job in flow["jobs"].values():
            assert job["timeout-minutes"] <= 120
            for step in job["steps"]:
                assert "uses" not in step or re.search(r"@[0-9a-f]{40}$", step["uses"]), step


def test_a_release_is_attested_and_published_without_a_password() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    assert flow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    build, publish = flow["jobs"]["build"], flow["jobs"]["publish"]
    assert build["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert publish["environment"] == "pypi"
    used = [step.get("uses", "").partition("@")[0] for job in (build, publish) for step in job["steps"]]
    assert "actions/attest-build-provenance" in used
    assert "pypa/gh-action-pypi-publish" in used
    assert "password:" not in (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    ran = "\n".join(step.get("run", "") for step in build["steps"])
    assert "SOURCE_DATE_EPOCH" in ran
    assert "unhang diagnose" in ran
    assert "unhang explain" in ran


def test_nobody_is_told_to_install_from_a_registry_that_does_not_have_it() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/unhang/**/*.py"), *ROOT.glob("src/**/*.toml")]
    told = re.compile(r"pip (?:install|download)\b[^\n`]*?(?<![/\w])'?unhang(?![\w/-]| @ )")
    texts = [path for path in texts if path.name != "CONTRIBUTING.md"]  # says what to do once it is there
    assert len(texts) > 500
    assert [line for path in texts for line in path.read_text(encoding="utf-8").splitlines() if told.search(line)] == []
