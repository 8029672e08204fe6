"""Checks the documents of this project.

check_docs.py links ROOT                    links, paths, marks, length and tables of README.md, CONTRIBUTING.md, docs
check_docs.py commands ROOT PAGE PROGRAM    runs the blocks of PAGE that are marked <!-- run -->
check_docs.py self_test                     checks this program on small documents

A ```sh block has a mark on the line before it: <!-- run -->, or <!-- not run: REASON -->. The blocks of a page run in order
in one fresh folder that holds examples/ (a copy) and tests/ (a link), with PROGRAM's folder first in PATH.
"""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

README_LINES = 200
RUN = "<!-- run -->"
NOT_RUN = re.compile(r"<!-- not run: .+ -->")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(core|sim|backend|traces|cli|gui|tests|docs|examples|packaging|cmake)(/[\w.*+-]+)+/?")


def blocks_of(lines):
    """(line number of the opening fence, its language, lines inside) of every fenced block; numbers start at 1."""
    blocks, start = [], None
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
        else:
            blocks.append((start, lines[start - 1][3:].strip(), lines[start:number - 1]))
            start = None
    return blocks


def prose_of(lines):
    """(number, line) of every line outside fenced blocks."""
    inside = {n for start, _, body in blocks_of(lines) for n in range(start, start + len(body) + 2)}
    return [(number, line) for number, line in enumerate(lines, 1) if number not in inside]


def anchors_of(lines):
    """Anchors of headings, as GitHub makes them, and of <a id="...">."""
    anchors = set()
    for _, line in prose_of(lines):
        anchors.update(re.findall(r'<a id="([^"]+)">', line))
        if re.match(r"#+ ", line):
            text = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            anchors.add(text.replace(" ", "-"))
    return anchors


def is_there(root, path):
    return bool(glob.glob(str(root / path))) if "*" in path else (root / path).exists()


def check_links(root, page, lines):
    problems = []
    for number, line in prose_of(lines):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (root / page).parent / path if path else root / page
            if not file.exists():
                problems.append((number, f"{target}: no such file"))
            elif anchor and anchor not in anchors_of(file.read_text().splitlines()):
                problems.append((number, f"{target}: no such heading"))
    return problems


def check_paths(root, lines):
    """Paths of this repository in code spans and in sh blocks."""
    named = [(number, span) for number, line in prose_of(lines) for span in CODE.findall(line)]
    for start, language, body in blocks_of(lines):
        if language == "sh":
            named += [(start + 1 + i, line) for i, line in enumerate(body)]
    problems = []
    for number, text in named:
        for word in text.split():
            word = word.rstrip(".,;:)").lstrip("(")
            if PATH.fullmatch(word) and not is_there(root, word):
                problems.append((number, f"{word}: no such file or folder"))
    return problems


def check_marks(lines):
    problems = []
    for start, language, _ in blocks_of(lines):
        mark = lines[start - 2] if start > 1 else ""
        if language == "sh" and mark != RUN and not NOT_RUN.fullmatch(mark):
            problems.append((start, f"an sh block needs {RUN} or <!-- not run: REASON --> on the line before"))
    return problems


def check_readme(lines):
    problems = []
    if len(lines) > README_LINES:
        problems.append((len(lines), f"{len(lines)} lines; at most {README_LINES}"))
    for number, line in prose_of(lines):
        if not line.startswith("|") or re.fullmatch(r"[|:\- ]+", line):
            continue
        text = CODE.sub("", re.sub(r"\]\([^)]*\)", "]", line))
        if re.search(r"\d", text) and "](docs/measured/" not in line:
            problems.append((number, "a table row with a number needs a link to docs/measured"))
    return problems


def links(root):
    pages = ["README.md", "CONTRIBUTING.md", "CHANGES.md"]
    pages += sorted(str(p.relative_to(root)) for p in (root / "docs").rglob("*.md"))
    failed = False
    for page in pages:
        lines = (root / page).read_text().splitlines()
        problems = check_links(root, page, lines)
        # A measurement names the files of its commit.
        if not page.startswith("docs/measured/"):
            problems += check_paths(root, lines) + check_marks(lines)
        if page == "README.md":
            problems += check_readme(lines)
        for number, text in sorted(problems):
            failed = True
            print(f"{page}:{number}: {text}")
    return 1 if failed else 0


def run_block(name, start, body, folder, environment):
    """Runs a block with the page's line numbers, so that bash names the line that failed."""
    trap = f"""trap 'echo "{name}:$LINENO: exit code $?: $BASH_COMMAND" >&2' ERR"""
    script = folder / ".block"
    script.write_text(f"set -Eeuo pipefail; {trap}" + "\n" * start + "\n".join(body) + "\n")
    done = subprocess.run(["bash", str(script)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(f"{name}:{start}: this block failed\n{done.stdout}")
    return done.returncode == 0


def commands(root, page, program):
    lines = page.read_text().splitlines()
    name = str(page.relative_to(root))
    with tempfile.TemporaryDirectory(prefix="shardscope_docs_") as temporary:
        folder = pathlib.Path(temporary)
        home = folder / ".home"
        home.mkdir()
        shutil.copytree(root / "examples", folder / "examples")
        (folder / "tests").symlink_to(root / "tests")
        environment = dict(os.environ, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), NO_COLOR="1",
                           PATH=f"{program.parent}:{os.environ['PATH']}")
        for start, language, body in blocks_of(lines):
            if language == "sh" and start > 1 and lines[start - 2] == RUN:
                if not run_block(name, start, body, folder, environment):
                    return 1
    return 0


def self_test():
    """Small documents with one mistake each."""
    page = ["# A b", "", RUN, "```sh", "true", "false", "```", "", "```sh", "ls", "```"]
    assert blocks_of(page) == [(4, "sh", ["true", "false"]), (9, "sh", ["ls"])]
    assert [number for number, _ in check_marks(page)] == [9]
    assert anchors_of(["### `compare --json`", '<a id="x"></a>']) == {"compare---json", "x"}
    assert check_readme(["| speed | 3 ms |"]) and not check_readme(["| speed | 3 ms [d](docs/measured/a.md) |"])
    assert check_readme([""] * (README_LINES + 1))
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        (root / "core").mkdir()
        (root / "core/a.h").write_text("")
        (root / "p.md").write_text("# One\n")
        assert not check_paths(root, ["`core/a.h` and `core/*.h`"])
        assert check_paths(root, ["`core/b.h`"]) == [(1, "core/b.h: no such file or folder")]
        assert not check_links(root, "p.md", ["[a](p.md#one) [b](core/a.h) [c](https://x.y)"])
        assert len(check_links(root, "p.md", ["[a](p.md#two) [b](q.md)"])) == 2
        done = subprocess.run([sys.executable, __file__, "commands", temporary, str(root / "q.md"), "/bin/true"],
                              capture_output=True, text=True)
        assert done.returncode != 0
        (root / "examples").mkdir()
        (root / "tests").mkdir()
        (root / "q.md").write_text("\n".join(page))
        done = subprocess.run([sys.executable, __file__, "commands", temporary, str(root / "q.md"), "/bin/true"],
                              capture_output=True, text=True)
        assert done.returncode == 1 and "q.md:6: exit code 1: false" in done.stdout, done.stdout
    return 0


def main(arguments):
    if arguments[:1] == ["self_test"]:
        return self_test()
    if len(arguments) == 2 and arguments[0] == "links":
        return links(pathlib.Path(arguments[1]).resolve())
    if len(arguments) == 4 and arguments[0] == "commands":
        return commands(pathlib.Path(arguments[1]).resolve(), pathlib.Path(arguments[2]).resolve(),
                        pathlib.Path(arguments[3]).resolve())
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
