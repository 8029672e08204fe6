"""A training script as people write them, of two processes on a CPU: train_script.py WAY FOLDER [RANK WORLD STORE].

WAY: fsdp2, ddp (loops of one's own, in `with shardscope.recorded`), fsdp2_callback (a loop of one's own that
calls transformers' callbacks as the Trainer does: accelerate wraps nothing in FSDP on a CPU), trainer (transformers' Trainer), lightning.
"""
import contextlib
import os
import subprocess
import sys
import tempfile


def tiny_config():
    from transformers import GPT2Config

    return GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=96, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                      bos_token_id=0, eos_token_id=0)


def tiny_model():
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    return AutoModelForCausalLM.from_config(tiny_config(), attn_implementation="sdpa")


@contextlib.contextmanager
def callbacks_of_trainer(model, optimizer, folder):
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_callback import CallbackHandler

    from shardscope import ShardscopeCallback

    handler = CallbackHandler([ShardscopeCallback(folder)], model, None, optimizer, None)
    arguments = TrainingArguments(output_dir=folder + "/output", use_cpu=True, report_to=[])
    handler.on_train_begin(arguments, TrainerState(), TrainerControl())
    yield
    handler.on_train_end(arguments, TrainerState(), TrainerControl())


def own_loop(way, folder):
    import torch
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    import shardscope

    model = tiny_model()
    if way != "ddp":
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    with callbacks_of_trainer(model, optimizer, folder) if way == "fsdp2_callback" else shardscope.recorded(folder):
        for _ in range(6):
            for _ in range(2):
                ids = torch.randint(0, 96, (2, 16), generator=generator)
                (model(input_ids=ids, labels=ids, use_cache=False).loss / 2).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def with_trainer(folder):
    import torch
    from transformers import Trainer, TrainingArguments

    from shardscope import ShardscopeCallback

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            ids = torch.arange(16) + index % 64
            return {"input_ids": ids, "labels": ids}

    arguments = TrainingArguments(output_dir=folder + "/output", per_device_train_batch_size=2, max_steps=6, report_to=[], use_cpu=True,
                                  save_strategy="no", disable_tqdm=True, ddp_backend="gloo")
    Trainer(model=tiny_model(), args=arguments, train_dataset=Tokens(), callbacks=[ShardscopeCallback(folder)]).train()


def with_lightning(folder):
    import lightning.pytorch as pl
    import torch

    from shardscope import ShardscopeCallback

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = tiny_model()

        def training_step(self, batch, _):
            return self.model(input_ids=batch, labels=batch, use_cache=False).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    data = torch.utils.data.DataLoader([(torch.arange(16) + i) % 96 for i in range(64)], batch_size=2)
    pl.Trainer(max_steps=6, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
               enable_progress_bar=False, enable_model_summary=False, callbacks=[ShardscopeCallback(folder)],
               plugins=None).fit(Module(), data)


def rank_main(way, folder, rank, world, store):
    import torch

    torch.set_num_threads(1)
    if way in ("fsdp2", "fsdp2_callback", "ddp"):
        torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        own_loop(way, folder)
        torch.distributed.destroy_process_group()
    elif way == "trainer":
        with_trainer(folder)
    else:
        with_lightning(folder)


def main(way, folder, world=2):
    with tempfile.TemporaryDirectory() as work:
        processes = []
        for rank in range(world):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world),
                           "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("TEST_PORT", "29577"),
                           "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            processes.append(subprocess.Popen([sys.executable, __file__, way, folder, str(rank), str(world), work + "/store"],
                                              env=environment))
        return max(process.wait() for process in processes)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        rank_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        sys.exit(main(sys.argv[1], sys.argv[2]))
