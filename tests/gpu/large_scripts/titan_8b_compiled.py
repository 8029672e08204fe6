"""titan_8b.py with each block compiled. Its init_process_group needs the variables of a rank."""
import os
import pathlib
import runpy

os.environ["TITAN_COMPILE"] = "1"
runpy.run_path(str(pathlib.Path(__file__).with_name("titan_8b.py")), run_name="__main__")
