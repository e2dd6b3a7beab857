"""What is shipped: names that every file system takes, bounded dependencies, wheels that are the same twice."""

from __future__ import annotations

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

from hatch_build import described
from tests.distributions import EXTRAS, LAB, PROJECT, ROOT, build, metadata_of
from unhang import __version__
from unhang_lab.stories.story import STORIES

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
    """Wheels and sdists, built twice."""
    return [build(tmp_path_factory.mktemp("dist")) for _ in range(2)]


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


def test_wheels_and_sdists_can_be_unpacked_anywhere(built: list[Path]) -> None:
    for path in built[0].iterdir():
        names = members(path)
        assert len(names) > (100 if path.name.startswith("unhang_lab") else 500)
        assert refused(names) == []
        assert not [name for name in names if re.search(r"(^|/)(\.venv|\.git|__pycache__|\.mypy_cache)/", name)]


def test_two_builds_give_the_same_bytes(built: list[Path]) -> None:
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in built)
    assert len(one) == 4
    assert one == other


def test_what_is_published_asks_for_releases_of_the_same_version_and_no_folder_of_ours(built: list[Path]) -> None:
    wanted = {"unhang": f"unhang-lab=={__version__}; extra == 'lab'", "unhang_lab": f"unhang=={__version__}"}
    for name, requirement in wanted.items():
        (wheel,), (sdist,) = (built[0].glob(f"{name}-{__version__}{end}") for end in ("-py3-none-any.whl", ".tar.gz"))
        with tarfile.open(sdist) as archive:
            information = archive.extractfile(f"{name}-{__version__}/PKG-INFO")
            assert information is not None
            published = information.read().decode("utf-8").partition("\n\n")[0]
        for text in (metadata_of(wheel), published):
            assert f"\nRequires-Dist: {requirement}" in text
            assert "file:" not in text


def test_the_version_stands_once() -> None:
    assert not [path for path in (ROOT, LAB) if __version__ in (path / "pyproject.toml").read_text(encoding="utf-8")]


def test_the_changelog_has_a_place_for_what_comes_and_a_section_of_this_version() -> None:
    versions = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))

    assert versions[:2] == ["Unreleased", __version__]


def test_the_lab_carries_the_stories_where_they_are_looked_for(built: list[Path]) -> None:
    for path, package in (("*.whl", ""), ("*.tar.gz", f"unhang_lab-{__version__}/src/")):
        (found,) = built[0].glob(f"unhang_lab-{path}")
        folder = f"{package}unhang_lab/stories"
        assert {f"{folder}/folders/{name}/story.toml" for name in STORIES} <= set(members(found))
        assert f"{folder}/story.py" in members(found)  # beside it they are looked for


def test_the_wheel_works_alone_and_without_torch(built: list[Path], tmp_path: Path) -> None:
    (wheel,) = built[0].glob("unhang-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    log = tmp_path / "rank0.log"
    log.write_text("[rank0]: RuntimeError: NCCL error: unhandled system error\nRuntimeError: x\n", encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); sys.modules['torch'] = None\n"
        "import unhang; assert 'site' in unhang.__file__\nfrom unhang.cli.main import main; main()"
    )
    for words, expected in ((("diagnose", str(log)), {1, 3}), (("explain", "Xid", "79"), {0})):
        done = subprocess.run([sys.executable, "-I", "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode in expected, done.stderr
        assert "mistake" not in done.stderr
        assert len(done.stdout) > 40


def test_a_package_page_shows_no_address_that_leads_nowhere(built: list[Path]) -> None:
    (wheel,) = built[0].glob("unhang-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        published = archive.read(f"unhang-{__version__}.dist-info/METADATA").decode("utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with_address = described(readme, "https://example.org/unhang")

    assert "\nDescription-Content-Type: text/markdown\n" in published
    assert published.endswith(described(readme, ""))
    assert "**unhang says why" in described(readme, "")
    assert not re.findall(r"\]\((?!https?:|#)[^)]*\)", described(readme, "") + with_address)
    assert "](https://example.org/unhang/raw/HEAD/docs/images/verdict.svg)" in with_address
    assert "](https://example.org/unhang/blob/HEAD/docs/quickstart.md)" in with_address


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    for name in [*PROJECT["project"]["dependencies"], *(one for group in EXTRAS.values() for one in group)]:
        wanted = name.partition(";")[0]
        assert ">=" in wanted, name
        assert "<" in wanted, name


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
    assert "scripts/build_distributions.sh dist" in ran
    assert "unhang diagnose" in ran
    assert "unhang explain" in ran
    assert "unhang demo" in ran


def test_nobody_is_told_to_install_from_a_registry_that_does_not_have_it() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/unhang/**/*.py"), *ROOT.glob("src/**/*.toml")]
    told = re.compile(r"pip (?:install|download)\b[^\n`]*?(?<![/\w])'?unhang(?![\w/-]| @ )")
    texts = [path for path in texts if path.name != "CONTRIBUTING.md"]  # says what to do once it is there
    assert len(texts) > 500
    assert [line for path in texts for line in path.read_text(encoding="utf-8").splitlines() if told.search(line)] == []
