#include "tests/backend/cpu/guarded_call.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <new>
#include <span>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "core/base/error.h"
#include "tests/backend/cuda/device_copies.h"
#include "tests/backend/cuda/emulated_device.h"

namespace shardscope::test {
namespace {

constexpr unsigned char canary = 0xA5;

class TableDevice : public Device {
 public:
  TableDevice(const cpu::KernelTable& table, int threads) : table_(table), threads_(threads) {}
  std::string description() const override {
    return std::string(table_.instruction_set) + ", " + std::to_string(threads_) + " threads";
  }
  Bytes workspace(const Kernel& kernel) const override {
    const auto wanted = table_[kernel.kind()].workspace;
    return wanted ? wanted(kernel, threads_) : Bytes{};
  }
  void prepare(const Kernel&) override {}
  void run(const Kernel& kernel, const KernelCall& call) override {
    table_[kernel.kind()].run(kernel, call, threads_);
  }

 private:
  const cpu::KernelTable& table_;
  int threads_;
};

/// Lists of devices by their threads.
std::vector<std::pair<int, std::vector<std::unique_ptr<Device>>>>& made_devices() {
  static std::vector<std::pair<int, std::vector<std::unique_ptr<Device>>>> made;
  return made;
}

/// Ends them with the tests: when the program ends, the libraries that they loaded end first.
class DevicesEnd : public ::testing::Environment {
 public:
  void TearDown() override { made_devices().clear(); }
};
[[maybe_unused]] const auto* const devices_end =
    ::testing::AddGlobalTestEnvironment(new DevicesEnd);

/// All attention by cuDNN, where there is one.
void add_device_with_cudnn(std::vector<std::unique_ptr<Device>>& list) {
  try {
    list.push_back(make_cuda_device({.use_cublaslt = true, .attention = CudaAttention::cudnn}));
  } catch (const Error&) {
    // A machine without cuDNN is none on which it could fail.
  }
}

}  // namespace

void GuardedMemory::Free::operator()(unsigned char* p) const {
  ::operator delete[](p, std::align_val_t{64});
}

GuardedMemory::GuardedMemory(std::int64_t bytes, unsigned char fill)
    : bytes_(bytes),
      storage_(static_cast<unsigned char*>(
          ::operator new[](static_cast<std::size_t>(bytes + 2 * guard), std::align_val_t{64}))) {
  std::memset(storage_.get(), canary, static_cast<std::size_t>(bytes + 2 * guard));
  std::memset(data(), fill, static_cast<std::size_t>(bytes));
}

bool GuardedMemory::intact() const {
  const auto is_canary = [](unsigned char byte) { return byte == canary; };
  const unsigned char* begin = storage_.get();
  return std::all_of(begin, begin + guard, is_canary) &&
         std::all_of(begin + guard + bytes_, begin + guard + bytes_ + guard, is_canary);
}

void GuardedCall::run(Device& device) {
  DeviceCopies copies(device.memory());
  const auto place = [&](const GuardedMemory& memory) -> void* {
    const std::span<std::byte> host = memory.with_guards();
    return copies.copy(host) + (static_cast<std::byte*>(memory.data()) - host.data());
  };
  device.prepare(kernel_);
  // Filled with NaN: a kernel that reads its workspace before it writes it is found out.
  const GuardedMemory workspace(device.workspace(kernel_).count, 0xFF);
  std::vector<void*> pointers;
  for (const auto& memory : operands_) pointers.push_back(memory ? place(*memory) : nullptr);
  for (const Alias& alias : aliases_)
    pointers[alias.operand] = static_cast<float*>(pointers[alias.of]) + alias.offset;
  pointers.push_back(place(workspace));
  device.run(kernel_, {.operands = pointers, .slices = slices_, .state = state_});
  copies.copy_back();
  EXPECT_TRUE(workspace.intact()) << "written beyond the workspace";
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    EXPECT_TRUE(!operands_[i] || operands_[i]->intact()) << "written beyond operand " << i;
  }
}

std::unique_ptr<Device> make_table_device(const cpu::KernelTable& table, int threads) {
  return std::make_unique<TableDevice>(table, threads);
}

const std::vector<std::unique_ptr<Device>>& devices(int threads) {
  auto& made = made_devices();
  for (const auto& [count, list] : made)
    if (count == threads) return list;
  std::vector<std::unique_ptr<Device>> list;
  list.push_back(make_cpu_device({.threads = threads, .use_onednn = true}));
  for (const cpu::KernelTable* table : cpu::usable_kernel_tables())
    list.push_back(make_table_device(*table, threads));
  if (threads == 1) {
    list.push_back(make_emulated_cuda_device());
    if (why_no_cuda_device().empty()) {
      list.push_back(make_cuda_device({.use_cublaslt = true}));
      list.push_back(make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own}));
      add_device_with_cudnn(list);
    }
  }
  made.reserve(16);
  made.emplace_back(threads, std::move(list));
  return made.back().second;
}

void on_every_device(const std::function<void(Device&)>& body) {
  for (const int threads : {1, 3}) {
    for (const auto& device : devices(threads)) {
      SCOPED_TRACE(device->description());
      body(*device);
    }
  }
}

std::vector<float> numbers(std::int64_t count, int seed, double scale) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  const auto uniform = [&] { return (static_cast<double>(generator()) + 0.5) / 4294967296.0; };
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(scale * std::sqrt(-2 * std::log(uniform())) *
                                        std::cos(2 * M_PI * uniform())));
  return values;
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& expected,
                  double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    const bool both_nan = std::isnan(actual[i]) && std::isnan(expected[i]);
    if (both_nan || error <= tolerance * std::max(1.0, std::abs(expected[i]))) continue;
    FAIL() << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i];
  }
}

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace shardscope::test
