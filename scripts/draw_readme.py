"""Draw the README's picture again: the Overview of a detector of the demo.

    python scripts/draw_readme.py

It starts the demo, signs in by its link, and writes `docs/detector.png`, in the light
theme and as wide as the README shows it.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

_PORT = 8767
_WIDTH = 1180
_TARGET = Path("docs/detector.png")
_BROWSER = "/usr/bin/chromium"


def draw(link: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_BROWSER, args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": _WIDTH, "height": 900})
        page.goto(link)
        page.click("main button[type=submit]")
        # The first labels arrive live, and the job counts them.
        time.sleep(90)
        page.goto(f"http://127.0.0.1:{_PORT}/detectors/digit-is-8")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=_TARGET, full_page=True)
        browser.close()
    with Image.open(_TARGET) as picture:
        few = picture.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(_TARGET, optimize=True)


def main() -> None:
    command = [sys.executable, "-m", "tracker", "demo", "--port", str(_PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        try:
            for line in demo.stdout or ():
                if link := re.search(r"http\S+/sign-in\?token=\S+", line):
                    draw(link[0])
                    return
        finally:
            demo.terminate()
    sys.exit("the demo ended without a link")


if __name__ == "__main__":
    main()
