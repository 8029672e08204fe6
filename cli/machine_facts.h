// What is installed on this machine, as far as training is concerned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/nvidia_smi.h"
#include "core/base/quantities.h"

namespace shardscope {

struct NetworkAdapter {
  std::string name;   ///< "mlx5_0"
  std::string layer;  ///< "InfiniBand" or "Ethernet"
  std::string state;  ///< "ACTIVE"
  double rate_gbit_per_s = 0;
  bool operator==(const NetworkAdapter&) const = default;
};

/// The packages of a Python; empty where one is not installed.
struct PythonFacts {
  std::string program;  ///< "python3"
  std::string version;
  std::string torch, torch_cuda,
      nccl;                 ///< torch_cuda: what torch was built for; "" for a CPU build
  std::string torch_error;  ///< why torch is installed and cannot be imported
  bool sees_gpus = false;   ///< torch.cuda.is_available()
  int gpus_seen = 0;
  std::vector<std::string> architectures;  ///< "sm_90", that torch has kernels for
  std::string transformers, accelerate, deepspeed;
};
/// The program that prints these facts as JSON.
std::string_view python_question();
/// Its answer; none where the text is not that.
std::optional<PythonFacts> read_python_facts(std::string_view program, std::string_view answer);

struct MachineFacts {
  std::string cpu;
  int cores = 0;
  Bytes memory;
  Bytes shared_memory;                ///< of /dev/shm
  std::optional<Bytes> locked_limit;  ///< memory that a process may lock; none: without limit
  bool has_nvidia_smi = false;
  std::vector<InstalledGpu> gpus;
  std::string driver_cuda;
  LinkTable links;
  std::vector<NetworkAdapter> network;
  std::optional<PythonFacts> python;
  std::string calibrated_cpu, calibrated_gpu;  ///< files that `calibrate` left; "" where none
};

/// Of GPUs, their links and the driver alone.
void ask_nvidia_smi(MachineFacts& facts);
/// Asks nvidia-smi, `python` and the system. Takes some seconds where torch is installed.
MachineFacts gather_machine_facts(const std::string& python);

}  // namespace shardscope
