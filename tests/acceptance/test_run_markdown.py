"""`quire run --pipeline markdown`: PDFs become Markdown with pictures; broken and locked ones a reason."""

import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.slow
PDFS = Path(__file__).resolve().parents[1] / "documents" / "corpus" / "pdf"


def test_a_folder_of_pdfs_becomes_markdown_with_pictures_that_its_links_lead_to(quire, folder):
    (folder / "sub dir").mkdir()
    shutil.copy(PDFS / "crazyones.pdf", folder / "crazy ones.pdf")
    shutil.copy(PDFS / "picture_classification.pdf", folder / "sub dir" / "pictures & more.pdf")
    shutil.copy(PDFS / "bug1980958.pdf", folder / "broken.pdf")
    shutil.copy(PDFS / "crazyones-encrypted-256.pdf", folder / "locked.pdf")
    (folder / "note.txt").write_text("no PDF", "utf-8")
    ran = quire.run(str(folder), "--pipeline", "markdown")
    assert ran.returncode == 3, ran.stderr
    found = {path: (one["status"], one["error_class"]) for path, one in quire.files().items()}
    assert found == {
        "broken.pdf": ("failed", "truncated"),
        "crazy ones.pdf": ("done", None),
        "locked.pdf": ("failed", "encrypted"),
        "note.txt": ("skipped", "not_handled"),
        "sub dir/pictures & more.pdf": ("done", None),
    }
    assert "protected by a password" in ran.stdout
    assert "crazy" in (quire.out / "crazy ones.md").read_text("utf-8").lower()
    markdown = quire.out / "sub dir" / "pictures & more.md"
    links = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", markdown.read_text("utf-8"))
    assert len(links) == 2
    for link in links:
        assert not {" ", "&"} & set(link)
        picture = markdown.parent / unquote(link)
        assert picture.read_bytes()[:2] == b"\xff\xd8", picture
    again = quire.run(str(folder), "--pipeline", "markdown")
    assert again.returncode == 3
    assert quire.report()["counts"]["from_cache"] == 2


def test_links_follow_the_names_of_pictures_that_are_marked(quire, folder):
    for name in ("box/a & b.pdf", "box/A & B.pdf", "BOX/c.pdf", "box/c.pdf"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(PDFS / "picture_classification.pdf", folder / name)
    ran = quire.run(str(folder), "--pipeline", "markdown")
    assert ran.returncode == 0, ran.stderr
    seen = []
    for one in quire.files().values():
        made = {path for path in one["outputs"] if not path.endswith(".md")}
        (markdown,) = set(one["outputs"]) - made
        text = (quire.out / markdown).read_text("utf-8")
        links = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
        assert {f"{Path(markdown).parent}/{unquote(link)}" for link in links} == made, markdown
        assert len(made) == 2
        seen += made
    assert len({path.casefold() for path in seen}) == 8
