"""titan_8b.py with each block compiled and its linear layers in 8 bits, gathered in 8 bits. Its init_process_group needs the
variables of a rank."""
import os
import pathlib
import runpy

os.environ["TITAN_COMPILE"] = os.environ["TITAN_FLOAT8"] = "1"
runpy.run_path(str(pathlib.Path(__file__).with_name("titan_8b.py")), run_name="__main__")
