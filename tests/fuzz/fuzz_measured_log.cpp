// Logs of TensorBoard, Weights & Biases, nvidia-smi and Slurm: no bytes crash, hang or take memory
// beyond what they hold. Each input is read as it is, and as the one record of a file whose
// checksums are right, which a mutation alone would never keep.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "traces/measured/measured_run.h"
#include "traces/measured/metric_formats.h"

namespace {

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

std::string as_event_file(std::string_view record) {
  const std::string length = little(record.size(), 8);
  return length + little(shardscope::masked_crc32c(length), 4) + std::string(record) +
         little(shardscope::masked_crc32c(record), 4);
}

std::string as_wandb_file(std::string_view record) {
  constexpr std::size_t most = 32768 - 7 - 7;
  const std::string data = "\x01" + std::string(record.substr(0, most));
  const std::uint32_t checksum = shardscope::wandb_checksum(data);
  return ":W&B\xe1\xbe" + std::string(1, '\0') + little(checksum, 4) + little(data.size() - 1, 2) +
         data;
}

void read(std::string_view bytes) {
  try {
    const shardscope::MetricLog log = shardscope::read_metric_log(bytes, "log");
    std::size_t points = 0;
    for (const auto& series : log.series) points += series.points.size();
    if (points > bytes.size()) std::abort();  // a number takes a byte at least
    (void)shardscope::measured_run({log});
  } catch (const shardscope::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  read(as_event_file(bytes));
  read(as_wandb_file(bytes));
  return 0;
}
