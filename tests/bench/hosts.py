#!/usr/bin/env python3
"""Trains over two hosts, which are network namespaces of this machine, and takes the network away.

usage: hosts.py SHARDSCOPE [--json] [--rate MBIT]

Each namespace has its own host name. They are joined by a pair of virtual devices. mpirun starts a rank in each; they talk MPI over
TCP. Five runs of the same job:
  one host    both ranks here, over shared memory: the losses that all others must have
  two hosts   over the network as it is
  slow link   the network limited to --rate (10) Mbit/s, by tc
  dark        one host's device is taken down in the middle of a step: all ranks must end by themselves within the job's timeout and 15 s.
              The device comes back, and the job goes on with --resume
  script      examples/launch/mpirun.sh, whose rank on the second host is killed in the middle: the script starts the job again
It counts `differ`, runs whose losses are not those of one host, bit for bit; `hung`, dark runs with ranks left after that time; `lost`,
runs that did not go on. Exit code 1: one of them is not 0. Exit code 77, with the reason: no root, `ip`, `tc`, `unshare`, mpirun or namespaces.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 64, "n_embd": 64,
          "n_layer": 3, "n_head": 4, "n_inner": None, "activation_function": "gelu_new", "initializer_range": 0.1,
          "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": True}
STEPS, EVERY, DARK_AT, TIMEOUT_S, GRACE_S = 40, 5, 12, 10, 15


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def kill(processes):
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Hosts:
    """Two namespaces with a network of their own. Gone at the end, with what still runs in them."""

    def __init__(self):
        number = os.getpid() % 250 + 1
        self.names = [f"shardscope{number}{letter}" for letter in "ab"]
        self.devices = [f"ssh{number}{letter}" for letter in "ab"]
        self.addresses = [f"10.83.{number}.{i}" for i in (1, 2)]
        self.network = f"10.83.{number}.0/24"

    def __enter__(self):
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            run("ip", "link", "add", self.devices[0], "type", "veth", "peer", "name", self.devices[1])
            for name, device, address in zip(self.names, self.devices, self.addresses):
                run("ip", "link", "set", device, "netns", name)
                self.inside(name, "ip", "address", "add", f"{address}/24", "dev", device)
                self.inside(name, "ip", "link", "set", device, "up")
                self.inside(name, "ip", "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            skip(f"no network namespaces here: {error.stderr.strip()}")
        return self

    def __exit__(self, *_):
        for name in self.names:
            kill(self.processes(name))
            run("ip", "netns", "del", name, check=False)

    def inside(self, name, *command, check=True):
        return run("ip", "netns", "exec", name, *command, check=check)

    def processes(self, name):
        return [int(word) for word in run("ip", "netns", "pids", name, check=False).stdout.split()]

    def link(self, state):
        self.inside(self.names[1], "ip", "link", "set", self.devices[1], state)

    def limit(self, rate_mbit):
        """The name of the queue that makes the network slow. None: the kernel has neither."""
        ways = {"netem": ["netem", "rate", f"{rate_mbit}mbit", "delay", "1ms"],
                "tbf": ["tbf", "rate", f"{rate_mbit}mbit", "burst", "64kb", "latency", "400ms"]}
        for way, options in ways.items():
            done = [self.inside(name, "tc", "qdisc", "add", "dev", device, "root", *options, check=False)
                    for name, device in zip(self.names, self.devices)]
            if all(one.returncode == 0 for one in done):
                return way
        return None

    def unlimit(self):
        for name, device in zip(self.names, self.devices):
            self.inside(name, "tc", "qdisc", "del", "dev", device, "root", check=False)


class Jobs:
    def __init__(self, program, folder, hosts):
        self.program, self.folder, self.hosts = os.path.abspath(program), folder, hosts
        os.mkdir(os.path.join(folder, "model"))
        write(os.path.join(folder, "model", "config.json"), json.dumps(CONFIG))
        write(os.path.join(folder, "text.txt"), " ".join(f"word {i % 97} and {i * 7 % 1013}" for i in range(20000)))
        write(os.path.join(folder, "job.json"), json.dumps(
            {"model": "model", "data": "text.txt", "steps": STEPS, "batch": 2, "seq": 32, "ranks": 2, "threads": 1,
             "strategy": "full_shard", "device": "cpu", "save_model": False, "timeout": f"{TIMEOUT_S} s",
             "checkpoint": {"every": EVERY, "keep": 2}}))
        # In the place of ssh: mpirun asks for a host and a command. Each host has a name of its own.
        cases = "\n".join(f'  {address}) exec ip netns exec {name} unshare --uts bash -c "hostname {name}; $*" ;;'
                          for address, name in zip(hosts.addresses, hosts.names))
        write(os.path.join(folder, "agent"), f'#!/bin/bash\nhost=$1; shift\ncase $host in\n{cases}\nesac\nexit 1\n', 0o755)
        self.environment = os.environ | {"HOME": folder, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def here(self, name):
        return subprocess.run([self.program, "train", "job.json", "--quiet", "-o", name], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, check=False)

    def over_hosts(self, name, *options):
        """mpirun as a process; it runs on the first host."""
        first, _ = self.hosts.names
        mca = {"plm_rsh_agent": os.path.join(self.folder, "agent"), "btl": "tcp,self", "pml": "ob1",
               "btl_tcp_if_include": self.hosts.network, "oob_tcp_if_include": self.hosts.network}
        command = ["ip", "netns", "exec", first, "unshare", "--uts", "bash", "-c", f'hostname {first}; exec "$@"', "_", "mpirun",
                   "--host", ",".join(f"{address}:1" for address in self.hosts.addresses), "-n", "2", "--bind-to", "none",
                   *(word for key, value in mca.items() for word in ("--mca", key, value)),
                   "-x", f"MASTER_ADDR={self.hosts.addresses[0]}", "-x", "HOME",
                   self.program, "train", "job.json", "--quiet", "-o", name, *options]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)

    def script(self, name):
        """examples/launch/mpirun.sh, which runs on the first host."""
        first, _ = self.hosts.names
        launch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "launch")
        shutil.copy(os.path.join(launch, "mpirun.sh"), self.folder)
        write(os.path.join(self.folder, "hosts.txt"), "".join(f"{address} slots=1\n" for address in self.hosts.addresses))
        os.makedirs(os.path.join(self.folder, "bin"), exist_ok=True)
        write(os.path.join(self.folder, "bin", "shardscope"), f'#!/bin/bash\nexec {self.program} "$@"\n', 0o755)
        variables = {"RUN": os.path.join(self.folder, name), "RANKS_PER_HOST": "1", "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                     "OMPI_MCA_plm_rsh_agent": os.path.join(self.folder, "agent"), "MASTER_ADDR": self.hosts.addresses[0],
                     "OMPI_MCA_btl_tcp_if_include": self.hosts.network, "OMPI_MCA_oob_tcp_if_include": self.hosts.network,
                     "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mca_base_env_list": "MASTER_ADDR;PATH;HOME"}
        return subprocess.Popen(["ip", "netns", "exec", first, "unshare", "--uts", "bash", "-c", f'hostname {first}; exec "$@"', "_",
                                 "bash", os.path.join(self.folder, "mpirun.sh")], cwd=self.folder, env=self.environment | variables,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def losses(self, name):
        """Step, loss and norm as they stand in metrics.jsonl: text, so that every bit counts."""
        path = os.path.join(self.folder, name, "metrics.jsonl")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            found = [re.match(r'\{("step": \d+, "loss": [^,]+, "gradient_norm": [^,]+)', line) for line in file]
        return [one.group(1) for one in found if one]

    def ranks(self, hosts=None):
        """Processes of the job, on both hosts."""
        found = []
        for name in hosts or self.hosts.names:
            for process in self.hosts.processes(name):
                try:
                    with open(f"/proc/{process}/exe", "rb"):
                        if os.readlink(f"/proc/{process}/exe") == os.path.realpath(self.program):
                            found.append(process)
                except OSError:
                    pass
        return found


def goes_dark(jobs, name):
    """Takes the second host away in the middle of a step. Seconds until all ranks had ended; none: they had not."""
    mpirun = jobs.over_hosts(name)
    if not wait_for_step(jobs, name, DARK_AT, mpirun):
        mpirun.kill()
        return None, f"did not reach step {DARK_AT}, or ended first: {mpirun.communicate()[1].strip()[-300:]}"
    jobs.hosts.link("down")
    begin = time.monotonic()
    while jobs.ranks() and time.monotonic() - begin < TIMEOUT_S + GRACE_S:
        time.sleep(0.05)
    left, seconds = jobs.ranks(), time.monotonic() - begin
    jobs.hosts.link("up")
    try:
        mpirun.wait(30)
    except subprocess.TimeoutExpired:
        mpirun.kill()
    errors = mpirun.communicate()[1]
    for host in jobs.hosts.names:
        kill(jobs.hosts.processes(host))
    said = next((line for line in errors.splitlines() if line.startswith("shardscope")), errors.strip()[:300])
    return (None if left else seconds), said


def wait_for_step(jobs, name, step, process):
    """Whether the job reaches the step, and still runs then."""
    end = time.monotonic() + 120
    while len(jobs.losses(name)) < step and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    return len(jobs.losses(name)) >= step and process.poll() is None


def loses_a_rank(jobs, name):
    """The script's exit code, once its rank on the second host was killed. None: there was no rank to kill."""
    script = jobs.script(name)
    victims = jobs.ranks(jobs.hosts.names[1:]) if wait_for_step(jobs, name, DARK_AT, script) else []
    kill(victims)
    code = finished(script)
    return code if victims else None


def finished(process):
    try:
        errors = process.communicate(timeout=300)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        errors = "did not end in 300 s " + process.communicate()[1]
    if process.returncode != 0:
        print(f"ended with {process.returncode}: {errors.strip()[-600:]}", file=sys.stderr)
    return process.returncode


def measure(jobs, rate):
    result = {"differ": [], "hung": [], "lost": [], "seconds": {}}
    done = jobs.here("one_host")
    if done.returncode != 0:
        sys.exit(f"the job ends with {done.returncode} on one host: {done.stderr}")
    expected = jobs.losses("one_host")

    def timed(name):
        begin = time.monotonic()
        finished(jobs.over_hosts(name))
        result["seconds"][name] = round(time.monotonic() - begin, 2)
        if jobs.losses(name) != expected:
            result["differ"].append(f"{name}: {len(jobs.losses(name))} steps")

    timed("two_hosts")
    result["limited_by"] = jobs.hosts.limit(rate)
    if result["limited_by"]:
        timed("slow_link")
        jobs.hosts.unlimit()
    else:
        print("slow link: skipped, this kernel has neither netem nor tbf")
    result["dark_s"], result["dark_said"] = goes_dark(jobs, "dark")
    if result["dark_s"] is None:
        result["hung"].append(result["dark_said"])
    if finished(jobs.over_hosts("dark", "--resume")) != 0:
        result["lost"].append("dark: it does not go on")
    elif jobs.losses("dark") != expected:
        result["differ"].append("dark, resumed")
    if loses_a_rank(jobs, "script") != 0:
        result["lost"].append("script: no rank was killed, or it does not end well")
    elif jobs.losses("script") != expected:
        result["differ"].append("script")
    return result


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--rate", type=int, default=10)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    if os.geteuid() != 0:
        skip("network namespaces need root")
    for needed in ("ip", "tc", "unshare", "mpirun"):
        if not shutil.which(needed):
            skip(f"there is no {needed} here")
    with tempfile.TemporaryDirectory(prefix="shardscope_hosts_") as folder, Hosts() as hosts:
        result = measure(Jobs(options.program, folder, hosts), options.rate)
    if options.json:
        print(json.dumps(result))
    else:
        for name, seconds in result["seconds"].items():
            print(f"{name}: {STEPS} steps in {seconds} s")
        print(f"dark: ranks ended after {result['dark_s']} s (timeout {TIMEOUT_S} s): {result['dark_said']}")
        print(", ".join(f"{what}: {len(result[what])}" for what in ("differ", "hung", "lost")))
        for line in result["differ"] + result["hung"] + result["lost"]:
            print("  " + line)
    return 1 if result["differ"] or result["hung"] or result["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
