"""What MkDocs does beyond its own: files outside docs/ become pages, and links to them lead there.

On a code host a page links to ``../benchmarks/README.md``; on the site the same link leads to the page made of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each file outside docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links between files of the repository to the pages made of them."""
    here = page.file.src_uri
    source = {page: source for source, page in OUTSIDE.items()}.get(here, f"docs/{here}")

    def lead(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        to = OUTSIDE.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if to is None:
            return f"{text} (`{path}`)"  # a file that has no page
        return f"[{text}]({posixpath.relpath(to, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(lead, markdown)
