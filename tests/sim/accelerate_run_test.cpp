// Configuration files of accelerate, played, against what the real library did with them on a CUDA
// device that computes nothing (tests/data/accelerate_runs/record.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/config_file.h"
#include "core/config/config_plan.h"
#include "core/model/huggingface.h"
#include "core/runtime/configured_setup.h"
#include "core/runtime/recorded_schedule.h"
#include "sim/program_player.h"

namespace shardscope {
namespace {

const std::filesystem::path folder =
    std::filesystem::path(SOURCE_ROOT) / "tests/data/accelerate_runs";

/// Largest figures of each iteration.
struct Peaks {
  std::int64_t allocated = 0, active = 0, reserved = 0;
  bool operator==(const Peaks&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Peaks& p) {
  return out << p.allocated << " allocated, " << p.active << " active, " << p.reserved
             << " reserved";
}

struct Case {
  std::string name;
  JsonValue row;
};

JsonValue recorded() { return JsonValue::read_file(folder / "recorded.json"); }

Model model_of(const Case& c, const JsonValue& config) {
  const auto dtype = c.row.find("dtype");
  return model_of_config(config,
                         {.dtype = dtype ? parse_dtype(dtype->string(), "dtype") : Dtype::float32});
}

eager::TrainingSetup setup_of(const Case& c, const Model& model) {
  const ConfigFile file =
      read_config_file(folder / c.row.at("accelerate").string(), ConfigKind::accelerate);
  const Workers workers = workers_of(file, value_of(file), {});
  const ConfiguredModel prepared =
      configured(model, widths_of_model(folder / c.row.at("model").string()));
  eager::TrainingSetup setup = eager::configured_setup(prepared, workers, files_beside(file));
  setup.session.attention.cudnn = false;  // as the recorder
  setup.loop.batch = c.row.at("batch").integer();
  setup.loop.length = c.row.at("seq").integer();
  setup.loop.clips = true;
  if (const auto accumulate = c.row.find("accumulate"))
    setup.loop.micro_batches = static_cast<int>(accumulate->integer());
  // The fake group's all-reduce is replaced in the recorder as well.
  if (auto* ddp = std::get_if<eager::ddp::Options>(&setup.runtime))
    ddp->communication_hook = [](eager::Session&, const eager::Tensor&) {};
  return setup;
}

std::vector<Peaks> played(const Case& c) {
  const JsonValue config = JsonValue::read_file(folder / c.row.at("model").string());
  const Model model = model_of(c, config);
  const Schedule schedule = eager::recorded_schedule(model, config, setup_of(c, model));
  InstantDevice device;
  CachingAllocator allocator({}, {.total = Bytes{80LL << 30}}, device);
  ProgramPlayer player({.schedule = schedule, .allocator = allocator, .device = device});
  std::vector<Peaks> peaks;
  for (const Step& step : schedule.steps) {
    player.play_until(step.actions.begin);
    allocator.reset_peaks();
    player.play_until(step.actions.end);
    const AllocatorStatistics& s = allocator.statistics();
    peaks.push_back({s.allocated_bytes.peak, s.active_bytes.peak, s.reserved_bytes.peak});
  }
  return peaks;
}

std::vector<Peaks> expected(const Case& c) {
  std::vector<Peaks> peaks;
  for (const JsonValue& row : c.row.at("recorded").at("iterations").elements())
    peaks.push_back({row.at("allocated_bytes").integer(), row.at("active_bytes").integer(),
                     row.at("reserved_bytes").integer()});
  return peaks;
}

TEST(AccelerateRun, AllocatesWhatTheRealLibraryDoes) {
  for (const auto& [name, row] : recorded().members()) {
    SCOPED_TRACE(name);
    const Case c{name, row};
    EXPECT_EQ(played(c), expected(c));
  }
}

}  // namespace
}  // namespace shardscope
