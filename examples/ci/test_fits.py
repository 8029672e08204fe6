"""tests/test_fits.py: the configuration of the repository fits its cluster, and a step stays short."""
import os

import shardscope

CONFIG = os.environ.get("FSDP_CONFIG", "configs/fsdp.yaml")
MODEL = os.environ.get("FSDP_MODEL", "model")


def test_the_configuration_fits():
    shardscope.assert_fits(MODEL, accelerate=CONFIG, batch=4, seq=2048, cluster="h100_sxm", max_step_time_s=0.4)


def test_lint_finds_nothing_new():
    shardscope.assert_lints(CONFIG, model=MODEL, known=())
