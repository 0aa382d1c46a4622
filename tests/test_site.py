"""The docs as a site: built strictly, with every loss and its equation, and nothing from the network."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from isotherm.losses import catalogue
from test_package import ROOT

pytest.importorskip("mkdocs", reason="extra 'docs' is not installed")
HOOKS = ROOT / "docs/site/hooks.py"


def build(folder, config="mkdocs.yml"):
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", config, "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    done = build(tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    losses = (tmp_path / "site/reference/losses/index.html").read_text()
    for entry in catalogue.losses():
        assert f'id="{entry.name.lower()}"' in losses
    assert losses.count('display="block"') >= len(catalogue.losses())
    assert ".. math::" not in losses
    for name in ("own-loop", "inspect", "study", "sentences", "image-text"):
        assert "import" in (tmp_path / f"site/notebooks/{name}/index.html").read_text()
    chosen = tmp_path / "site/guides/choose-a-temperature/index.html"
    (framed,) = re.findall(r'<iframe class="chart" src="([^"]+)"', chosen.read_text())
    assert "How many negatives a query reaches" in (chosen.parent / framed).read_text()
    assert 'class="language-sh highlight"' in chosen.read_text()  # by which site.css knows whose lines to break
    assert 'class="language-text highlight"' in (tmp_path / "site/architecture/index.html").read_text()
    for page in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text())
        assert not fetched, page


@pytest.mark.slow
def test_a_dead_link_fails(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("[gone](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text(
        re.sub(
            r"^(nav|hooks|extra_css|docs_dir):.*(\n[ -].*)*\n",
            "",
            (ROOT / "mkdocs.yml").read_text(),
            flags=re.MULTILINE,
        )
    )
    done = build(tmp_path / "site", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert "nowhere.md" in done.stdout + done.stderr


def test_links_out_of_the_docs_become_pages_of_the_site():
    specification = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    assert hooks.relinked("[a](../README.md#install)", "index.md") == "[a](start.md#install)"
    assert hooks.relinked("[a](../../src/isotherm/nn.py)", "guides/x.md") == "[a](../source/src/isotherm/nn.py.md)"
    assert hooks.relinked("![a](docs/figures/b.png)", "start.md") == "![a](figures/b.png)"
    assert hooks.relinked("[a](https://arxiv.org/abs/1)", "index.md") == "[a](https://arxiv.org/abs/1)"
    assert hooks.relinked("[a](../examples/notebooks/x.ipynb)", "index.md") == "[a](notebooks/x.md)"
    assert hooks.relinked("[a](../../docs/api.md)", "notebooks/x.md") == "[a](../api.md)"
    assert hooks.relinked("[a](decisions)", "index.md") == "[a](decisions/index.md)"
