"""Runs the notebooks of examples/notebooks, and compares what they print with what is stored in them."""
import os
import pathlib
import sys
import unittest

SOURCES = pathlib.Path(os.environ["SHARDSCOPE_SOURCES"])
NOTEBOOKS = sorted((SOURCES / "examples/notebooks").glob("*.ipynb"))


def text_of(cell):
    """What a person reads of its outputs; pictures, which are not stored, are the program's, and are tested there."""
    return "".join(o.text if o.output_type == "stream" else o.get("data", {}).get("text/plain", "") for o in cell.outputs)


class Notebooks(unittest.TestCase):
    def test_they_print_what_is_stored(self):
        try:
            import ipykernel  # noqa: F401
            import nbclient
            import nbformat
        except ImportError as error:
            self.skipTest(f"{error.name} is absent")
        self.assertGreaterEqual(len(NOTEBOOKS), 2)
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                stored = nbformat.read(path, as_version=4)
                ran = nbformat.read(path, as_version=4)
                nbclient.NotebookClient(ran, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
                for before, after in zip(stored.cells, ran.cells):
                    if before.cell_type == "code":
                        self.assertEqual(text_of(after), text_of(before), before.source)
                has_picture = any("<svg" in o.get("data", {}).get("text/html", "") for cell in ran.cells for o in cell.get("outputs", []))
                self.assertTrue(has_picture, "no picture was shown")


if __name__ == "__main__":
    unittest.main()
