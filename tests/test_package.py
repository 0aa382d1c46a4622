"""The base stands on torch and numpy alone, and the imports keep to their contracts."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import isotherm
from isotherm.losses import catalogue, laws

ROOT = Path(__file__).parent.parent
BASE = ["isotherm.nn", "isotherm.temperature", "isotherm.pairing", "isotherm.measures", "isotherm.engine"]


def needed_by(*names):
    """The installed distributions these need, and theirs, without extras."""
    todo, found = list(names), {}
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        for line in found[name].requires or []:
            if "extra ==" not in line:
                todo.append(re.match(r"[\w.-]+", line)[0])
    return found.values()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder with what `pip install isotherm` brings and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    base = [re.match(r"[\w.-]+", line)[0] for line in metadata.requires("isotherm") or [] if "extra ==" not in line]
    assert sorted(base) == ["numpy", "torch"]
    for distribution in needed_by(*base):
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
    (folder / "isotherm").symlink_to(Path(isotherm.__file__).parent)
    return folder


def printed_by(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def run_bare(folder, code):
    return subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_base_works_without_the_extras(bare):
    code = "import torch, isotherm.nn as nn; z = torch.randn(2, 4, 3); print(nn.NTXentLoss()(*z) > 0)"
    done = run_bare(bare, code)
    assert done.stdout.strip() == "tensor(True)", done.stderr
    imports = run_bare(bare, f"import {', '.join(BASE)}")
    assert imports.returncode == 0, imports.stderr


@pytest.mark.slow
def test_a_loop_of_one_s_own_needs_nothing_but_the_base(bare):
    code = """import torch, isotherm
encoder = torch.nn.Linear(8, 4)
queue = isotherm.Queue(16, 4)
value = isotherm.cached(isotherm.nn.NTXentLoss(), encoder, 4)(*torch.randn(2, 12, 8), negatives=queue.keys)
value.backward()
status = isotherm.Monitor(grace=None)(torch.randn(300, 4))
print(status.temperature is not None, isotherm.inspect(torch.randn(60, 4).numpy()).health.n)
"""
    done = run_bare(bare, code)
    assert done.stdout.strip() == "True 60", done.stderr


def command_bare(folder, *arguments):
    return run_bare(folder, f"import sys; from isotherm.cli import main; sys.exit(main({list(arguments)}))")


def test_the_command_line_lists_losses_without_the_extras(bare):
    done = command_bare(bare, "losses")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^NTXentLoss +\S.* +eq\. \d+$", done.stdout, re.MULTILINE)
    assert "isotherm.nn.CACRLoss(t_pos=1.0" in command_bare(bare, "losses", "CACRLoss").stdout


def test_the_command_line_says_what_is_missing(bare):
    done = command_bare(bare, "data", "get", "mnist")
    assert done.returncode == 2
    assert done.stderr.strip() == "isotherm: this needs rich: pip install 'isotherm[lab]'"


@pytest.mark.parametrize("call", ["isotherm.train('runs/a', epochs=1)", "isotherm.load_encoder('runs/a')"])
def test_python_says_what_is_missing(bare, call):
    done = run_bare(bare, f"import isotherm\ntry: {call}\nexcept ImportError as error: print(error)")
    assert re.fullmatch(r"this needs \w+: pip install 'isotherm\[lab\]'", done.stdout.strip()), done.stderr


def test_every_public_name_is_there_without_the_extras_or_says_what_is_missing(bare):
    code = """import isotherm
for name in isotherm.__all__:
    try: getattr(isotherm, name)
    except ImportError as error: print(name, error)
"""
    done = run_bare(bare, code)
    assert re.fullmatch(r"load_encoder this needs \w+: pip install .*", done.stdout.strip()), done.stderr


@pytest.mark.slow
def test_importing_losses_does_not_import_the_compiler():
    code = "import sys, isotherm.nn; print('torch._dynamo' in sys.modules)"
    assert printed_by(code) == "False\n"


def test_only_world_knows_torch_distributed():
    knows = [
        path.parent.name
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"^\s*(import|from) torch\.distributed|torch\.distributed\.", path.read_text(), re.MULTILINE)
    ]
    assert set(knows) == {"world"}


@pytest.mark.slow
def test_the_package_shows_what_there_is_and_imports_nothing_before_it_is_asked():
    code = (
        "import sys, isotherm; print('torch' in sys.modules, *dir(isotherm));"
        "import torch; print(float(isotherm.nn.NTXentLoss()(torch.eye(4), torch.eye(4))) > 0)"
    )
    assert printed_by(code) == f"False {' '.join(sorted([*isotherm.__all__, '__version__']))}\nTrue\n"


def blocks(page, language):
    """The code of a page in one language, block by block."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.slow
def test_every_python_block_of_the_readme_runs_as_printed():
    codes = blocks("README.md", "python")
    assert len(codes) == 2
    for code in codes:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_python_block_of_the_guide_to_loops_runs_as_printed():
    codes = blocks("docs/guides/your-own-loop.md", "python")
    assert len(codes) == 4
    done = subprocess.run([sys.executable, "-c", "\n".join(codes)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_loss_of_the_readme_keeps_the_laws(tmp_path):
    """All but those that take long, which `isotherm check` runs."""
    path = tmp_path / "mine.py"
    path.write_text(blocks("README.md", "python")[1])
    make = laws.Maker.of(f"{path}:MyLoss")
    for law in ("docstring", "gradient", "order", "views", "memory", "per query", "copies"):
        assert laws.judge(law, make).verdict == "holds", law


def test_architecture_names_every_module_by_its_path():
    page = (ROOT / "docs/architecture.md").read_text()
    source = ROOT / "src/isotherm"
    there = {str(p.relative_to(source)) for p in source.rglob("*.py") if p.name != "__init__.py"}
    named = set(re.findall(r"^- `([\w/]+\.py)`: \S", page, re.MULTILINE))
    assert named == there, f"python docs/make_pages.py; missing {there - named}, gone {named - there}"


@pytest.mark.slow
def test_pages_made_of_docstrings_are_current():
    command = [sys.executable, str(ROOT / "docs/make_pages.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_help_names_every_target_with_what_it_does():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^  ([\w-]+) +\S", said, re.MULTILINE) == targets


def test_every_link_between_pages_leads_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())]
    lost = [(page.name, link) for page, link in links if "://" not in link and not (page.parent / link).exists()]
    assert not lost


def test_guides_name_only_losses_that_exist():
    known = {entry.name for entry in catalogue.losses()} | {"MyLoss", "PowerLoss", "SentenceTransformerLoss"}
    known |= {"ClipLoss", "MetricLearningLoss", "SigLipLoss"}  # integrations
    for page in (ROOT / "docs/guides").glob("*.md"):
        assert set(re.findall(r"\b[A-Z]\w+Loss\b", page.read_text())) <= known, page.name
