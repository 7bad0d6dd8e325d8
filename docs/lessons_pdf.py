"""Print the lessons of the built documentation into one PDF: ``python docs/lessons_pdf.py lessons.pdf``.

Needs the extra ``docs``, a build in docs/_build, and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pypdf import PdfWriter

PAGES = Path(__file__).parent / "_build" / "course"
FLAGS = "--headless --no-sandbox --disable-gpu --no-pdf-header-footer --virtual-time-budget=10000".split()


def main(target: str) -> None:
    """Print page after page, and join them with a bookmark each."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    lessons = sorted(PAGES.glob("[0-9]_*.html"))
    if chromium is None or not lessons:
        raise SystemExit("Install Chromium." if lessons else f"There are no lessons in {PAGES}; build first.")
    book = PdfWriter()
    with tempfile.TemporaryDirectory() as folder:
        for lesson in lessons:
            printed = Path(folder) / f"{lesson.stem}.pdf"
            command = [chromium, *FLAGS, f"--user-data-dir={folder}/profile", f"--print-to-pdf={printed}"]
            subprocess.run([*command, lesson.as_uri()], check=True, capture_output=True, timeout=120)
            book.append(printed, outline_item=lesson.stem.replace("_", " "))
    book.write(target)
    print(f"{target}: {len(lessons)} lessons, {len(book.pages)} pages")


if __name__ == "__main__":
    main(sys.argv[1])
