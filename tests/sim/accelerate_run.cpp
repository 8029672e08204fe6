#include "tests/sim/accelerate_run.h"

#include "core/config/config_file.h"
#include "core/config/config_plan.h"
#include "core/config/configured_setup.h"
#include "core/model/huggingface.h"

namespace shardscope::testing {
namespace {

const std::filesystem::path folder =
    std::filesystem::path(SOURCE_ROOT) / "tests/data/accelerate_runs";

Model model_of(const JsonValue& row, const JsonValue& config) {
  const auto dtype = row.find("dtype");
  return model_of_config(config,
                         {.dtype = dtype ? parse_dtype(dtype->string(), "dtype") : Dtype::float32});
}

eager::TrainingSetup setup_of(const JsonValue& row, const Model& model) {
  const ConfigFile file =
      read_config_file(folder / row.at("accelerate").string(), ConfigKind::accelerate);
  const Workers workers = workers_of(file, value_of(file), {});
  const ConfiguredModel prepared =
      configured(model, widths_of_model(folder / row.at("model").string()));
  eager::TrainingSetup setup = eager::configured_setup(prepared, workers, files_beside(file));
  setup.session.attention.cudnn = false;  // as the recorder
  setup.loop.batch = row.at("batch").integer();
  setup.loop.length = row.at("seq").integer();
  setup.loop.clips = true;
  if (const auto rank = row.find("rank")) setup.rank = static_cast<int>(rank->integer());
  if (const auto accumulate = row.find("accumulate"))
    setup.loop.micro_batches = static_cast<int>(accumulate->integer());
  // The fake group's all-reduce is replaced in the recorder as well.
  if (auto* ddp = std::get_if<eager::ddp::Options>(&setup.runtime))
    ddp->communication_hook = [](eager::Session&, const eager::Tensor&) {};
  return setup;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const AllocatorFigures& figures) {
  return out << figures.allocated << " allocated, " << figures.active << " active, "
             << figures.reserved << " reserved";
}

AllocatorFigures figures_of(const JsonValue& row) {
  return {row.at("allocated_bytes").integer(), row.at("active_bytes").integer(),
          row.at("reserved_bytes").integer()};
}

AccelerateRun accelerate_run(const JsonValue& row) {
  JsonValue config = JsonValue::read_file(folder / row.at("model").string());
  Model model = model_of(row, config);
  eager::TrainingSetup setup = setup_of(row, model);
  return {std::move(config), std::move(model), std::move(setup)};
}

JsonValue accelerate_recording(const char* name) { return JsonValue::read_file(folder / name); }

}  // namespace shardscope::testing
