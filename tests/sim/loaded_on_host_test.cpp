// A base in 4 bits that FSDP1 takes from the host, beside what the real libraries asked PyTorch's
// caching allocator for (tests/data/fsdp_qlora/README.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/plans/transformers_facts.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "core/pytorch/runtimes/training/training_run.h"
#include "sim/planner/memory_play.h"

namespace shardscope {
namespace {

JsonValue recorded() {
  return JsonValue::read_file(SOURCE_ROOT "/tests/data/fsdp_qlora/steps.json");
}

/// What record.py makes of a case.
class WrappedRun {
 public:
  explicit WrappedRun(const JsonValue& recorded) : config_(recorded.at("config")) {
    const Model base = with_dtype(model_of_config(config_), Dtype::bfloat16);
    eager::FineTuningSetup tuning;
    tuning.base = std::make_shared<const Model>(base);
    tuning.to_host = tuning.empties_cache = true;
    tuning.quantization = Quantization{.double_quantization = true,
                                       .compute_dtype = Dtype::bfloat16,
                                       .storage_dtype = Dtype::bfloat16};
    LoraConfig lora{.rank = 16, .dropout = 0.1};
    lora.targets.names = {"k_proj", "q_proj", "v_proj", "up_proj", "down_proj", "gate_proj"};
    tuning.adapter = lora;
    tuning.trainable_dtype = Dtype::bfloat16;  // autocast_adapter_dtype=False
    const eager::ModelSettings settings = eager::usual_settings(base);
    model_ = eager::fine_tuned_model({config_, settings, tuning});
    setup_ = eager::requested_setup(model_, {.runtime = Runtime::fsdp1,
                                             .sharding = ShardingStrategy::full_shard,
                                             .precision = TrainingPrecision::bf16,
                                             .use_original_parameters = false,
                                             .world = 2,
                                             .ranks_per_node = 2});
    auto& fsdp = std::get<eager::Fsdp1Setup>(setup_.runtime);
    fsdp.options.sync_module_states = true;
    fsdp.options.offload_parameters = recorded.at("offloads").boolean();
    const auto units = peft_units(tree_of(model_), model_.no_split_classes);
    fsdp.units.auto_wrap = NameWrap{.modules = {units.begin(), units.end()}};
    setup_.trainable_dtype.reset();
    setup_.model = settings;
    eager::set_fine_tuning(tuning, setup_);
  }

  /// Bytes by moment and by record.py's names.
  std::map<std::string, std::map<std::string, std::int64_t>> figures() const {
    std::map<std::string, std::map<std::string, std::int64_t>> result;
    planner::MemoryPlay play({.session = setup_.session,
                              .device = eager::kernel_device(setup_.session.compute_capability),
                              .allocator = {},
                              .memory = Bytes{std::int64_t{40} << 30}});
    const auto note = [&](const std::string& moment) {
      play.catch_up();
      const AllocatorStatistics& s = play.allocator().statistics();
      result[moment] = {{"allocated", s.allocated_bytes.current},
                        {"reserved", s.reserved_bytes.current},
                        {"peak_allocated", s.allocated_bytes.peak},
                        {"peak_reserved", s.reserved_bytes.peak}};
      play.begin();
    };
    play.begin();
    const eager::TrainingRun run(play.session(), model_, config_, setup_,
                                 [&](eager::SetupMoment moment) {
                                   using enum eager::SetupMoment;
                                   if (moment == loaded) note("load");
                                   if (moment == adapted) note("adapter");
                                   if (moment == wrapped) note("wrap");
                                 });
    return result;
  }

 private:
  JsonValue config_;
  Model model_;
  eager::TrainingSetup setup_;
};

TEST(LoadedOnHost, ReservesWhatTheRealLibrariesReserve) {
  for (const JsonValue& each : recorded().elements()) {
    const auto figures = WrappedRun(each).figures();
    for (const std::string moment : {"load", "adapter", "wrap"})
      for (const auto& [name, bytes] : each.at("figures").at(moment).members())
        EXPECT_EQ(figures.at(moment).at(name), bytes.integer())
            << each.at("name").string() << ", " << moment << ", " << name;
  }
}

}  // namespace
}  // namespace shardscope
