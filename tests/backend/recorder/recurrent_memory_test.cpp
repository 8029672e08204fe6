// What the simulated device says that cuDNN keeps of recurrent networks, beside a real one's.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/format/csv_reader.h"

namespace shardscope {
namespace {

// As cudnn.h numbers them.
constexpr int float32 = 0, float16 = 2, rnn_tanh = 1, lstm = 2, gru = 3, training = 1,
              inference = 0;

class DeviceLibrary {
 public:
  DeviceLibrary() : handle_(::dlopen(SHARDSCOPE_DEVICE_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {}
  ~DeviceLibrary() {
    if (handle_) ::dlclose(handle_);
  }
  DeviceLibrary(const DeviceLibrary&) = delete;
  DeviceLibrary& operator=(const DeviceLibrary&) = delete;

  bool loaded() const { return handle_ != nullptr; }
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(handle_, name));
    return function ? function(arguments...) : -1;
  }

 private:
  void* handle_;
};

struct Network {
  int cell, layers, directions, batch, tokens, inputs, hidden, type;
};

std::size_t reserve_of(const DeviceLibrary& device, const Network& of, int mode) {
  void *network = nullptr, *sequences = nullptr, *none = nullptr;
  device.call("cudnnCreateRNNDescriptor", &network);
  device.call("cudnnCreateRNNDataDescriptor", &sequences);
  device.call("cudnnSetRNNDescriptor_v8", network, 0, of.cell, 2, of.directions - 1, 0, of.type,
              of.type, 0, std::int32_t{of.inputs}, std::int32_t{of.hidden}, std::int32_t{of.hidden},
              std::int32_t{of.layers}, none, 0U);
  const int* lengths = nullptr;
  device.call("cudnnSetRNNDataDescriptor", sequences, of.type, 0, of.tokens, of.batch, of.inputs,
              lengths, none);
  std::size_t work = 0, reserve = 0;
  EXPECT_EQ(
      device.call("cudnnGetRNNTempSpaceSizes", none, network, mode, sequences, &work, &reserve), 0);
  device.call("cudnnDestroyRNNDataDescriptor", sequences);
  device.call("cudnnDestroyRNNDescriptor", network);
  return reserve;
}

TEST(RecurrentMemory, ReserveSpaceIsThatOfCudnnOnAnH100) {
  const DeviceLibrary device;
  ASSERT_TRUE(device.loaded()) << ::dlerror();
  const CsvTable table = CsvTable::read_file(SOURCE_ROOT "/tests/data/cudnn/reserve_space.csv");
  const auto text = [&](std::size_t row, std::string_view name) {
    return std::string(table.field(row, *table.column(name)));
  };
  const auto number = [&](std::size_t row, std::string_view name) {
    return std::stoi(text(row, name));
  };
  ASSERT_EQ(table.rows(), 72U);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string cell = text(row, "cell");
    const Network network{.cell = cell == "LSTM"  ? lstm
                                  : cell == "GRU" ? gru
                                                  : rnn_tanh,
                          .layers = number(row, "layers"),
                          .directions = number(row, "directions"),
                          .batch = number(row, "batch"),
                          .tokens = number(row, "tokens"),
                          .inputs = number(row, "inputs"),
                          .hidden = number(row, "hidden"),
                          .type = text(row, "dtype") == "float16" ? float16 : float32};
    EXPECT_EQ(reserve_of(device, network, training),
              static_cast<std::size_t>(number(row, "reserve_bytes")))
        << table.where(row);
    EXPECT_EQ(reserve_of(device, network, inference), 0U);
  }
}

}  // namespace
}  // namespace shardscope
