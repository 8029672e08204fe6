#!/usr/bin/env python3
"""Checks the scripts and manifests of examples/launch without a cluster.

usage: launch_check.py FOLDER

Scripts, and those inside manifests: bash -n, and shellcheck where it is installed. Manifests: YAML (yamllint's errors where it is
installed), the keys that Kubeflow's operators know, volumes that exist, and as many processes as there are GPUs. Exit code 77: PyYAML is
absent.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("skipped: PyYAML is not installed")
    sys.exit(77)

# kubeflow/mpi-operator 0.6, pkg/apis/kubeflow/v2beta1/types.go; kubeflow/training-operator 1.8, pkg/apis/kubeflow.org/v1.
KINDS = {"MPIJob": {"version": "kubeflow.org/v2beta1", "replicas": "mpiReplicaSpecs", "roles": {"Launcher", "Worker"},
                    "spec": {"slotsPerWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath", "launcherCreationPolicy",
                             "mpiImplementation", "runLauncherAsWorker"}},
         "PyTorchJob": {"version": "kubeflow.org/v1", "replicas": "pytorchReplicaSpecs", "roles": {"Master", "Worker"},
                        "spec": {"nprocPerNode", "runPolicy", "pytorchReplicaSpecs", "elasticPolicy"}}}
RUN_POLICY = {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy", "suspend", "managedBy"}
REPLICA = {"replicas", "template", "restartPolicy"}
RESTART = {"Always", "OnFailure", "Never", "ExitCode"}

faults = []


def check(is_right, where, what):
    if not is_right:
        faults.append(f"{where}: {what}")


def ended(where, command, script=None):
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    check(done.returncode == 0, where, f"{command[0]}: {done.stdout}{done.stderr}")


def check_script(where, script):
    ended(where, ["bash", "-n"], script)
    if shutil.which("shellcheck"):
        ended(where, ["shellcheck", "--shell=bash", "-"], script)


def check_replica(where, role, replica):
    check(set(replica) <= REPLICA, where, f"{role} has unknown keys {set(replica) - REPLICA}")
    check(replica.get("restartPolicy", "Never") in RESTART, where, f"{role}: restartPolicy {replica.get('restartPolicy')}")
    pod = replica["template"]["spec"]
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod["containers"]:
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        check(mounted <= volumes, where, f"{role} mounts {mounted - volumes}, which are no volumes")
        if container.get("command") == ["bash", "-c"]:
            check_script(f"{where}: {role}", "".join(container["args"]) + "\n")


def gpus_of(replica):
    return replica["template"]["spec"]["containers"][0].get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)


def check_processes(where, spec, replicas):
    """As many processes as GPUs."""
    worker = replicas["Worker"]
    if spec.get("slotsPerWorker"):
        script = "".join(replicas["Launcher"]["template"]["spec"]["containers"][0]["args"])
        started = int(re.search(r"mpirun .*?-n (\d+)", script, re.DOTALL).group(1))
        check(started == spec["slotsPerWorker"] * worker["replicas"], where, f"mpirun -n {started} does not fill the workers' slots")
        check(gpus_of(worker) == spec["slotsPerWorker"], where, f"{gpus_of(worker)} GPUs for {spec['slotsPerWorker']} slots")
    else:
        for role, replica in replicas.items():
            check(str(gpus_of(replica)) == spec["nprocPerNode"], where, f"{role}: {gpus_of(replica)} GPUs for {spec['nprocPerNode']} processes")


def check_manifest(path):
    name = os.path.basename(path)
    if shutil.which("yamllint"):
        ended(name, ["yamllint", "-d", "{extends: relaxed, rules: {line-length: disable}}", path])
    with open(path, encoding="utf-8") as file:
        manifest = yaml.safe_load(file)
    kind = KINDS[manifest["kind"]]
    check(manifest["apiVersion"] == kind["version"], name, f"apiVersion {manifest['apiVersion']}, expected {kind['version']}")
    check(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"]), name, "metadata.name is no DNS label")
    spec = manifest["spec"]
    check(set(spec) <= kind["spec"], name, f"spec has unknown keys {set(spec) - kind['spec']}")
    policy = spec.get("runPolicy", {})
    check(set(policy) <= RUN_POLICY, name, f"runPolicy has unknown keys {set(policy) - RUN_POLICY}")
    replicas = spec[kind["replicas"]]
    check(set(replicas) <= kind["roles"], name, f"replicas {set(replicas)}, expected {kind['roles']}")
    for role, replica in replicas.items():
        check_replica(name, role, replica)
    check_processes(name, spec, replicas)


def main():
    scripts, manifests = (sorted(glob.glob(os.path.join(sys.argv[1], "*." + end))) for end in ("sh", "yaml"))
    for path in scripts:
        with open(path, encoding="utf-8") as file:
            check_script(os.path.basename(path), file.read())
    for path in manifests:
        check_manifest(path)
    absent = [tool for tool in ("shellcheck", "yamllint") if not shutil.which(tool)]
    print(f"{len(scripts)} scripts and {len(manifests)} manifests" + (f"; not installed: {', '.join(absent)}" if absent else ""))
    for fault in faults:
        print(fault)
    return 0 if scripts and manifests and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
