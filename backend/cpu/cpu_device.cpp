#include "backend/cpu/cpu_device.h"

#include <array>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/matmul_library.h"
#include "backend/cpu/team.h"

namespace shardscope {
namespace {

/// The processor's name as the system gives it.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

bool has_gelu(const Kernel& kernel) {
  return kernel.visit([](const auto& k) {
    if constexpr (requires { k.has_gelu; })
      return k.has_gelu;
    else
      return false;
  });
}

class CpuDevice : public Device {
 public:
  CpuDevice(int threads, std::unique_ptr<cpu::MatmulLibrary> library)
      : threads_(threads), table_(cpu::best_kernel_table()), library_(std::move(library)) {}

  std::string description() const override {
    return fmt::format("{}, {} thread{}, {}, {}", processor_name(), threads_,
                       threads_ == 1 ? "" : "s", table_.instruction_set,
                       library_ ? library_->description() : "plain matrix products");
  }

  Bytes workspace(const Kernel& kernel) const override {
    if (by_library(kernel)) return library_->workspace(kernel);
    const cpu::WorkspaceFunction wanted = table_[kernel.kind()].workspace;
    return wanted ? wanted(kernel, threads_) : Bytes{};
  }

  void prepare(const Kernel& kernel) override {
    if (by_library(kernel)) library_->prepare(kernel);
  }

  void run(const Kernel& kernel, const KernelCall& call) override {
    if (!by_library(kernel)) return table_[kernel.kind()].run(kernel, call, threads_);
    if (const auto* gradients = kernel.get_if<LinearBackwardWeightKernel>()) {
      if (gradients->has_bias) run_bias_gradient(kernel, call);
      if (!gradients->has_weight_gradient) return;
    }
    library_->run(kernel, call);
  }

 private:
  bool by_library(const Kernel& kernel) const {
    return library_ && is_linear(kernel.kind()) && !has_gelu(kernel) && library_->can_run(kernel);
  }

  void run_bias_gradient(const Kernel& kernel, const KernelCall& call) {
    const std::array<void*, 4> operands{call.operands[0], call.operands[1], nullptr,
                                        call.operands[3]};
    table_[kernel.kind()].run(kernel, {.operands = operands, .slices = {}, .state = call.state},
                              threads_);
  }

  int threads_;
  const cpu::KernelTable& table_;
  std::unique_ptr<cpu::MatmulLibrary> library_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  const int threads = options.threads > 0 ? options.threads : cpu::available_cores();
  return std::make_unique<CpuDevice>(
      threads, options.use_onednn ? cpu::make_matmul_library(threads) : nullptr);
}

}  // namespace shardscope
