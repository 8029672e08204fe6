"""Amounts as people read them, rounded as the program rounds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def _three_digits(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bytes_text(count: int) -> str:
    """30.2 GiB"""
    if abs(count) < 1024:
        return f"{count} B"
    sign, value = ("-" if count < 0 else ""), float(abs(count))
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        if value < 1024 or unit == "PiB":
            break
    return f"{sign}{_three_digits(value)} {unit}"


def time_text(nanoseconds: int | None) -> str:
    """228 ms"""
    if nanoseconds is None:
        return "-"
    if abs(nanoseconds) < 1000:
        return f"{nanoseconds} ns"
    sign, value = ("-" if nanoseconds < 0 else ""), float(abs(nanoseconds))
    for unit in ("ns", "us", "ms", "s"):
        if value < 1000 or unit == "s":
            break
        value /= 1000
    return f"{sign}{_three_digits(value)} {unit}"


def share_text(share: float | None) -> str:
    """+4.6%"""
    return "-" if share is None else f"{share:+.1%}"


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of text, escaped."""
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_with_picture(line: str, picture: str, below: str = "") -> str:
    """A line, an SVG picture as the program drew it, and what stands below."""
    start = picture.find("<svg")
    return f"<div><p>{escape(line)}</p>{picture[start:] if start >= 0 else ''}{below}</div>"


def escape(text: str) -> str:
    """Text for HTML."""
    import html

    return html.escape(text)
