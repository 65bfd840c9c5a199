"""The documentation site builds without a warning, is complete, and needs nothing from elsewhere."""

import ast
import importlib
import importlib.util
import inspect
import re
import runpy
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from onlinehash.cli import app
from onlinehash.hashers import HASHERS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WALKS = [
    ROOT / "README.md",
    DOCS / "quickstart.md",
    DOCS / "research.md",
    DOCS / "guides" / "write-your-own-hasher.md",
]  # commands that are typed as printed
PACKAGES = (
    "checks", "client", "codebooks", "codes", "collection", "datasets", "encoders", "exceptions", "experiments",
    "features", "hashers", "indexes", "metrics", "service", "streams", "tables", "types",
)  # fmt: skip
# their servers and devices are not at hand
NO_EXAMPLE = {"MilvusIndex", "GpuIndex", "place_features"}


class Links(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self):
        super().__init__()
        self.loaded, self.ids, self.links = [], set(), []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in {"link", "script", "img", "iframe", "source"}:
            self.loaded += [given[name] for name in ("href", "src", "srcset") if given.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    read = {}
    for path in sorted(site.rglob("*.html")):
        read[path.relative_to(site).as_posix()] = Links()
        read[path.relative_to(site).as_posix()].feed(path.read_text())
    return read


def test_every_page_is_in_the_navigation_and_has_a_title(site, pages):
    home = {link.split("#")[0] for link in pages["index.html"].links}
    sources = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    for name in sorted(sources):
        built = name.replace("README.html", "index.html")
        assert (site / built).is_file(), f"{name} is not on the site"
        assert built == "index.html" or built in home, f"{name} is not in nav of mkdocs.yml"
        assert re.search(r"<h1[^>]*>\s*\S", (site / built).read_text()), f"{name} has no title"


def test_navigation_has_two_levels():
    for section in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]:
        for pages in section.values():
            for entry in [] if isinstance(pages, str) else pages:
                assert isinstance(entry, str) or all(isinstance(page, str) for page in entry.values()), entry


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for name, page in pages.items():
        for address in page.loaded:
            assert not re.match(r"(https?:)?//", address), f"{name} loads {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text()), style.name


def test_links_inside_the_site_lead_somewhere(site, pages):
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//|/", link) or name == "404.html":
                continue
            target, _, anchor = link.partition("#")
            path = (site / name).parent / target if target else site / name
            assert path.exists(), f"{name} links to {link}"
            other = path.resolve().relative_to(site.resolve()).as_posix()
            assert not anchor or not target or anchor in pages[other].ids, f"{name} links to {link}"


def test_every_command_has_a_place():
    text = (DOCS / "cli.md").read_text()

    def walk(names, command):
        assert re.search(rf"^#+ {' '.join(names)}$", text, flags=re.MULTILINE)
        for name, below in getattr(command, "commands", {}).items():
            walk((*names, name), below)

    walk(("onlinehash",), typer.main.get_command(app))


def test_every_route_is_on_the_page_of_routes(tmp_path):
    from onlinehash.collection import Collection
    from onlinehash.service import create_app

    text = (DOCS / "http.md").read_text()
    with Collection.open(tmp_path / "empty.oh", "hcoh") as collection:
        paths = create_app(collection).openapi()["paths"]
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text


def public_names():
    """Yield the packages, and the names in them that the reference has to have."""
    for package in PACKAGES:
        module = importlib.import_module(f"onlinehash.{package}")
        tree = ast.parse(Path(module.__file__).read_text())
        own = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        for name in getattr(module, "__all__", own):
            yield package, module, name
    for package, inside in (("indexes", "engines"),):
        module = importlib.import_module(f"onlinehash.{package}.{inside}")
        for name in module.__all__:
            if name != "GpuIndex" or importlib.util.find_spec("cupy"):
                yield package, module, name


def test_every_public_name_is_in_the_reference():
    entries = {path.stem: path.read_text().splitlines() for path in (DOCS / "reference").glob("*.md")}
    missing = [
        f"{module.__name__}.{name}"
        for package, module, name in public_names()
        if f"::: {module.__name__}.{name}" not in entries[package]
    ]
    assert not missing, f"docs/reference lacks {', '.join(missing)}"


def test_every_public_method_is_in_the_reference(pages):
    missing = []
    for package, module, name in public_names():
        owner = getattr(module, name)
        told_of = {".".join(place.rsplit(".", 2)[-2:]) for place in pages[f"reference/{package}.html"].ids}
        for base in owner.__mro__ if inspect.isclass(owner) else ():
            for member, value in vars(base).items():
                told = getattr(value, "__doc__", None) and (inspect.isroutine(value) or isinstance(value, property))
                ours = base.__module__.startswith("onlinehash") and not member.startswith(("_", "set_"))
                ours &= not base.__module__.endswith("._estimator")  # the contract of scikit-learn, which describes it
                if told and ours and not told_of & {f"{kind.__name__}.{member}" for kind in owner.__mro__}:
                    missing.append(f"{module.__name__}.{name}.{member}")
    assert not missing, f"docs/reference lacks {', '.join(missing)}"


def test_methods_made_at_run_time_have_their_parameters(site):
    text = (site / "reference/client.html").read_text()
    start = text.index('id="onlinehash.client.AsyncClient.search"')
    assert "asymmetric" in text[start : text.index('id="onlinehash.client.AsyncClient.range_search"')]


def test_every_public_name_has_an_example():
    missing = []
    for _, module, name in public_names():
        value = getattr(module, name)
        is_error = inspect.isclass(value) and issubclass(value, Exception)  # which explains itself
        if name in NO_EXAMPLE or is_error or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not (">>>" in (value.__doc__ or "") or re.search(rf"(>>>|\.\.\.).*\b{name}\(", module.__doc__)):
            missing.append(f"{module.__name__}.{name}")
    assert not missing, f"no example in the docstrings of {', '.join(missing)}"


def test_names_of_the_package_itself_are_in_the_reference():
    import onlinehash

    text = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    for name in set(dir(onlinehash)) - {"__version__"}:
        assert re.search(rf"^::: onlinehash\.\S+\.{name}$", text, flags=re.MULTILINE), name


def steps(page):
    """Yield the files to save, the commands to type and what they print, in the order of a page."""
    pattern = r"```(?:py title=\"(?P<file>\S+)\"|(?P<kind>sh|text))\n(?P<content>.*?)```"
    for found in re.finditer(pattern, page.read_text(), flags=re.DOTALL):
        yield found["file"] or found["kind"], found["content"]


def typed(command, capsys):
    """Run a command in this process and return what it prints."""
    program, *words = shlex.split(command)
    if program == "pip":
        return ""
    known = dict(HASHERS)
    try:
        if program == "python":
            runpy.run_path(words[0], run_name="__main__")
            return capsys.readouterr().out
        done = CliRunner().invoke(app, words)
    finally:  # for a user each is a process, in which nothing of the one before is registered
        HASHERS.clear()
        HASHERS.update(known)
    assert done.exit_code == 0, done.output
    return done.output


def without_numbers(text):
    """Return text as it compares between machines and terminals."""
    return [re.sub(r"\d+(\.\d+)?", "#", " ".join(line.split())) for line in text.splitlines()]


@pytest.mark.parametrize("page", WALKS, ids=lambda page: page.stem)
def test_commands_work_in_an_empty_folder_and_print_what_the_page_says(
    page, tmp_path, monkeypatch, capsys, few_components
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # README is read in a clone
    printed = ""
    for kind, content in steps(page):
        if kind == "sh":
            printed = "".join(typed(command, capsys) for command in content.splitlines())
        elif kind == "text":
            assert without_numbers(printed) == without_numbers(content)
        else:
            (tmp_path / kind).write_text(content)
