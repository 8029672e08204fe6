#!/usr/bin/env python3
"""page_check.py SHARDSCOPE MODEL: the page of `compare -o` in a real Chromium: it shows its pictures, the wheel zooms into one, a
drag moves it and a double click shows all of it again. Exit code 77: there is no Chromium here."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ACT = """<script>
const svg = document.querySelector("svg"), seen = [], note = () => seen.push(svg.getAttribute("viewBox"));
const at = (x, y) => ({clientX: x, clientY: y, bubbles: true, cancelable: true, pointerId: 1});
svg.setPointerCapture = () => {};
note();
svg.dispatchEvent(new WheelEvent("wheel", {...at(600, 300), deltaY: -1}));
note();
svg.dispatchEvent(new PointerEvent("pointerdown", at(600, 300)));
svg.dispatchEvent(new PointerEvent("pointermove", at(500, 300)));
svg.dispatchEvent(new PointerEvent("pointerup", at(500, 300)));
note();
svg.dispatchEvent(new MouseEvent("dblclick", at(600, 300)));
note();
document.body.setAttribute("data-seen", seen.join(";"));
document.body.setAttribute("data-shown", [...document.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().height > 100).length);
</script></body>"""


def main():
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("skipped: no Chromium is here")
        return 77
    program, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        run, page = pathlib.Path(folder) / "run", pathlib.Path(folder) / "page.html"
        subprocess.run([program, "simulate", "--model", model, "--cluster", "h100_sxm", "--world", "2", "--strategy", "full_shard", "--batch", "1",
                        "--seq", "64", "-o", run], check=True, capture_output=True)
        subprocess.run([program, "compare", run, "-o", page], check=True, capture_output=True)
        page.write_text(page.read_text().replace("</body>", ACT))
        shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                                "--window-size=1280,900", "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120).stdout
    seen = re.search('data-seen="([^"]*)"', shown)
    assert seen, "the page's script did not run to its end"
    boxes = [[float(number) for number in box.split()] for box in seen[1].split(";")]
    whole, zoomed, moved, again = boxes
    assert zoomed[2] < whole[2] and zoomed[3] < whole[3] and zoomed[0] > 0, boxes
    assert moved[0] > zoomed[0] and moved[2:] == zoomed[2:], boxes
    assert again == whole, boxes
    assert re.search('data-shown="([0-9]+)"', shown)[1] == "2", "one run has two pictures"
    return 0


if __name__ == "__main__":
    sys.exit(main())
