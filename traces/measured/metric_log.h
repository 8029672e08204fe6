// What other programs logged of a run, as series of numbers: TensorBoard, Weights & Biases,
// nvidia-smi, Slurm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

/// One number of a series. What a format does not say is none.
struct MetricPoint {
  std::optional<std::int64_t> step;  ///< of training
  std::optional<double> time_s;      ///< since the Unix epoch; of nvidia-smi in its local time
  double value = 0;
  bool operator==(const MetricPoint&) const = default;
};

struct MetricSeries {
  std::string name;  ///< as the program calls it: "train/loss", "gpu.0.memory.used [MiB]"
  std::vector<MetricPoint> points;
  bool operator==(const MetricSeries&) const = default;
};

enum class MetricFormat : std::uint8_t { unknown, tensorboard, wandb, nvidia_smi, slurm };
/// "tensorboard", "wandb", "nvidia-smi", "slurm".
std::string_view name_of(MetricFormat format);

/// One file.
struct MetricLog {
  std::string file;
  MetricFormat format = MetricFormat::unknown;
  std::vector<MetricSeries> series;  ///< in the order in which their names first stand there
  std::vector<std::string> notes;    ///< what was passed over, and why
};

/// Most numbers that are kept of a file, and most names: a file beyond them is cut there, with a
/// note.
struct MetricLimits {
  std::size_t points = 20'000'000;
  std::size_t series = 100'000;
};

/// Series by name while a file is read.
class MetricCollector {
 public:
  explicit MetricCollector(const MetricLimits& limits = {}) : limits_(limits) {}
  /// False where a limit is met; the point is dropped then. A value that is not finite is dropped.
  bool add(std::string_view name, const MetricPoint& point);
  std::vector<MetricSeries> take();

 private:
  MetricLimits limits_;
  std::vector<MetricSeries> series_;
  std::map<std::string, std::size_t, std::less<>> places_;  ///< in series_
  std::size_t points_ = 0;
};

/// Whose file it is, by its first bytes.
MetricFormat metric_format(std::string_view first_bytes);

/// Reads the text of one file. Throws Error naming `file` where it is nobody's, or has no number.
MetricLog read_metric_log(std::string_view bytes, const std::string& file);

/// Reads a file of at most 1 GiB; of a folder every event file of TensorBoard and every .wandb
/// file, at most five folders deep and 256 in all.
std::vector<MetricLog> read_metric_logs(const std::filesystem::path& path);

}  // namespace shardscope
