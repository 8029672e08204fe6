"""One process as a rank of a job whose other ranks are not there: SHARDSCOPE_WORLD of them, this one SHARDSCOPE_RANK."""
import copy
import functools
import os
import threading

from . import log

WORLD = int(os.environ.get("SHARDSCOPE_WORLD", "0"))
_members = {}  # name of a process group: its global ranks


def _tell_group(key):
    """NCCL meets under a key that holds its group's name, just before it makes the communicator."""
    for part in key.split("/") if "nccl" in key else []:
        if part in _members:
            log.next_group(_members[part])
            return


class _Store:
    """Keys and values, where everybody else has always done their part. Made a torch.distributed.Store by `_store`."""

    def __init__(self):
        self._values = {}
        self._lock = threading.RLock()

    def set(self, key, value):
        _tell_group(key)
        with self._lock:
            self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key):
        _tell_group(key)
        # What another rank would have written: as long as an ncclUniqueId.
        with self._lock:
            return self._values.get(key, b"\x01" + b"0" * 127)

    def add(self, key, number):
        with self._lock:
            value = int(self._values.get(key, b"0")) + number
            self._values[key] = str(value).encode()
            return value

    def compare_set(self, key, expected, desired):
        with self._lock:
            now = self._values.get(key)
            if now is None or now.decode() == expected:
                self._values[key] = desired.encode() if isinstance(desired, str) else bytes(desired)
            return self._values[key]

    def check(self, keys):
        return all(key in self._values for key in keys)

    def wait(self, keys, timeout=None):
        return None

    def delete_key(self, key):
        return self._values.pop(key, None) is not None

    def num_keys(self):
        return len(self._values)

    def set_timeout(self, timeout):
        return None

    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def append(self, key, value):
        with self._lock:
            more = value.encode() if isinstance(value, str) else bytes(value)
            self._values[key] = self._values.get(key, b"") + more

    def has_extended_api(self):
        return True

    def clone(self):
        return self


_the_store = None


def _store(*_, **__):
    global _the_store
    if _the_store is None:
        from torch.distributed import Store

        class NobodyElse(_Store, Store):
            def __init__(self):
                Store.__init__(self)
                _Store.__init__(self)

        _the_store = NobodyElse()
    return _the_store


def _tell_rank(c10d):
    """Which rank this process is, as soon as it is one."""
    begin = c10d.init_process_group

    @functools.wraps(begin)
    def init_process_group(*arguments, **options):
        begin(*arguments, **options)
        log.line("rank", c10d.get_rank(), c10d.get_world_size())

    c10d.init_process_group = init_process_group


def _tell_splits(c10d):
    """A split of a communicator does not carry its members."""
    if not hasattr(c10d, "split_group"):
        return
    split = c10d.split_group

    def split_group(parent_pg=None, split_ranks=None, *arguments, **options):
        parent = parent_pg or c10d._get_default_group()
        for ranks in split_ranks or []:
            if parent.rank() in ranks:
                members = c10d.get_process_group_ranks(parent)
                log.next_group([members[rank] for rank in ranks])
        return split(parent_pg, split_ranks, *arguments, **options)

    c10d.split_group = split_group


def _stand_for_all(c10d):
    c10d._store_based_barrier = lambda *_, **__: None
    make = c10d._new_process_group_helper

    def new_group(group_size, group_rank, global_ranks_in_group, *arguments, **options):
        name = options.get("group_name") or next((one for one in arguments[2:] if isinstance(one, str)), "")
        _members[name] = list(global_ranks_in_group) or list(range(group_size))
        log.next_group(_members[name])
        return make(group_size, group_rank, global_ranks_in_group, *arguments, **options)

    c10d._new_process_group_helper = new_group

    if hasattr(c10d, "_create_gloo_process_group"):
        def gloo(*arguments, **options):
            from torch._C._distributed_c10d import FakeProcessGroup
            first = arguments[0] if arguments else None
            rank, size = getattr(first, "group_rank", None), getattr(first, "group_size", None)
            if rank is None:
                numbers = [one for one in (*arguments, *options.values()) if type(one) is int]
                rank, size = (numbers + [0, WORLD])[:2]
            return getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)(rank, size)

        c10d._create_gloo_process_group = gloo

    def all_gather_object(object_list, obj, group=None):
        for place in range(len(object_list)):
            object_list[place] = copy.deepcopy(obj)

    c10d.all_gather_object = all_gather_object


def _plan_alone(planner):
    """A distributed checkpoint's plan of this rank is not one of the whole state: the others' plans are copies of it."""
    check = planner._validate_global_plan

    def validate(*arguments, **options):
        # torch 2.15 lists errors, older ones say whether there are none.
        return True if isinstance(check(*arguments, **options), bool) else []

    planner._validate_global_plan = validate


def _meet(rendezvous):
    rendezvous.TCPStore = _store


def _become_a_rank(launcher):
    """torchrun and accelerate launch start no agent: this process goes on as the rank. But they start all of the job's own
    processes where those are all there are, and no rank was chosen."""
    start = launcher.launch_agent

    def launch_agent(config, entrypoint, args, **options):
        if config.max_nodes * config.nproc_per_node == WORLD and os.environ.get("SHARDSCOPE_MAY_RUN_ALL"):
            for name in ("SHARDSCOPE_WORLD", "SHARDSCOPE_RANK"):
                os.environ.pop(name, None)
            os.environ["SHARDSCOPE_RECORDED_RANKS"] = "all"
            return start(config, entrypoint, args, **options)
        if not isinstance(entrypoint, str):
            return entrypoint(*args)
        os.execvpe(entrypoint, [entrypoint, *args], dict(os.environ))

    launcher.launch_agent = launch_agent


def actions():
    told = [_tell_rank, _tell_splits]
    if WORLD == 0:
        return {"torch.distributed.distributed_c10d": told}
    rank, local = int(os.environ.get("SHARDSCOPE_RANK", "0")), int(os.environ.get("SHARDSCOPE_DEVICES", "8"))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank % local),
                      LOCAL_WORLD_SIZE=str(min(local, WORLD)), GROUP_RANK=str(rank // local),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    return {"torch.distributed.distributed_c10d": [*told, _stand_for_all],
            "torch.distributed.checkpoint.default_planner": [_plan_alone],
            "torch.distributed.rendezvous": [_meet],
            "torch.distributed.launcher.api": [_become_a_rank]}
