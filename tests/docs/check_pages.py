#!/usr/bin/env python3
"""Checks the pages: links lead to files and headings that exist, named files exist, the README stays short.

usage: check_pages.py SOURCE_ROOT
"""
import glob
import os
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:core|traces|sim|backend|gui|cli|tests|examples|docs|cmake|packaging)/[\w./<>*-]+)`")
README_LINES = 200


def anchors(page):
    """As GitHub makes them: lower case, spaces to hyphens, other marks left out."""
    made = set(re.findall(r'<a id="([^"]+)">', open(page, encoding="utf-8").read()))
    for line in open(page, encoding="utf-8"):
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            made.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return made


def link_error(page, target):
    if re.match(r"https?://|mailto:", target):
        return None
    path, _, anchor = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(file):
        return f"{target} does not exist"
    if anchor and anchor not in anchors(file):
        return f"{target}: the page has no such heading"
    return None


def named_error(root, named):
    pattern = re.sub(r"<\w+>", "*", named)
    candidates = [pattern, pattern + ".*"]
    if any(glob.glob(os.path.join(root, one)) for one in candidates):
        return None
    if "<" in named and os.path.isdir(os.path.join(root, os.path.dirname(pattern.split("*")[0]))):
        return None
    return f"`{named}` does not exist"


def main():
    root = os.path.abspath(sys.argv[1])
    pages = [os.path.join(root, name) for name in ("README.md", "CONTRIBUTING.md", "CHANGES.md")]
    pages += sorted(glob.glob(os.path.join(root, "docs", "*.md")))
    errors = []
    for page in pages:
        name = os.path.relpath(page, root)
        for number, line in enumerate(open(page, encoding="utf-8"), 1):
            found = [link_error(page, target) for target in LINK.findall(line)]
            if name != "CHANGES.md":
                found += [named_error(root, named) for named in NAMED.findall(line)]
            errors += [f"{name}:{number}: {error}" for error in found if error]
    lines = sum(1 for _ in open(os.path.join(root, "README.md"), encoding="utf-8"))
    if lines > README_LINES:
        errors.append(f"README.md has {lines} lines; {README_LINES} are the most")
    if errors:
        sys.exit("\n".join(errors))
    print(f"{len(pages)} pages are whole")


main()
