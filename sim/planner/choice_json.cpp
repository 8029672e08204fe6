#include "sim/planner/choice_json.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/format/json_reader.h"

namespace shardscope::planner {
namespace {

constexpr std::int64_t largest_size = std::int64_t{1} << 31;

template <class Value, std::size_t count>
Value named(const JsonValue& value, const std::array<Value, count>& values) {
  for (const Value candidate : values)
    if (value.string() == name_of(candidate)) return candidate;
  throw value.error(fmt::format("{} is not known", value.dump()));
}

int size_of(const JsonValue& value, int least) {
  return static_cast<int>(value.integer(least, largest_size - 1));
}

/// Null without a pipeline.
nlohmann::ordered_json pipeline_json(const Choice& choice) {
  if (!is_pipelined(choice)) return {};
  const PipelineChoice& pipeline = choice.pipeline;
  return {{"schedule", name_of(pipeline.schedule)},
          {"stages_per_rank", pipeline.stages_per_rank},
          {"stages", text_of_stages(pipeline)},
          {"checkpoint", name_of(pipeline.checkpoint)}};
}

PipelineChoice read_pipeline(const JsonValue& json) {
  PipelineChoice pipeline;
  const auto text = [&](std::string_view key) { return json.at(key).string(); };
  const auto where = [&](std::string_view key) { return json.at(key).where(); };
  pipeline.schedule = parse_pipeline_schedule(text("schedule"), where("schedule"));
  pipeline.stages_per_rank = size_of(json.at("stages_per_rank"), 1);
  parse_stages(text("stages"), where("stages"), pipeline);
  pipeline.checkpoint = parse_pipeline_checkpoint(text("checkpoint"), where("checkpoint"));
  return pipeline;
}

/// Of torchtitan's axes those inside a rank of the mesh, and that of experts, are the last.
void read_mesh(const std::string& text, const std::string& where, bool is_torchtitan,
               Choice& choice) {
  const std::size_t inside = text.find(",context=");
  const std::size_t end = is_torchtitan ? inside : text.find(",tensor=");
  choice.mesh = parse_mesh(text.substr(0, end), where);
  if (!is_torchtitan && end == text.npos) return;
  const auto size = [&](std::string_view axis) {
    const std::size_t at = text.find(axis);
    int ranks = 0;
    if (at == text.npos ||
        std::from_chars(text.data() + at + axis.size(), text.data() + text.size(), ranks).ec !=
            std::errc() ||
        ranks < 1)
      throw Error({.where = where,
                   .what = fmt::format("\"{}\" has no size of {}", text, axis),
                   .way_out = "write pipeline=1,replicate=1,shard=16,context=1,tensor=8"});
    return ranks;
  };
  if (!is_torchtitan) {
    choice.tensor = size(",tensor=");
    return;
  }
  choice.torchtitan = {.context = size(",context="), .tensor = size(",tensor=")};
  if (constexpr std::string_view axis = ",expert="; text.find(axis) != text.npos)
    choice.torchtitan->experts = size(axis);
}

}  // namespace

std::string choice_json(const Choice& choice) {
  nlohmann::ordered_json json{{"runtime", runtime_name(choice)},
                              {"strategy", name_of(choice.sharding)},
                              {"mesh", mesh_text(choice)},
                              {"blocks_per_unit", choice.blocks_per_unit},
                              {"prefetch", name_of(choice.prefetch)},
                              {"batch", choice.batch},
                              {"accumulate", choice.micro_batches},
                              {"reduce_every_micro_batch", choice.reduces_every_micro_batch},
                              {"checkpointing", text_of(choice.checkpointing)},
                              {"offload", name_of(choice.offload)},
                              {"precision", name_of(choice.precision)}};
  json["pipeline"] = pipeline_json(choice);
  constexpr int indent = 2;
  return json.dump(indent) + "\n";
}

Choice read_choice(const std::filesystem::path& path) {
  const JsonValue file = JsonValue::read_file(path);
  const auto text = [&](std::string_view key) { return file.at(key).string(); };
  const auto where = [&](std::string_view key) { return file.at(key).where(); };
  Choice choice;
  const bool is_torchtitan = text("runtime") == "torchtitan";
  choice.runtime =
      is_torchtitan ? Runtime::fsdp2 : parse_runtime(text("runtime"), where("runtime"));
  choice.sharding = parse_sharding_strategy(text("strategy"), where("strategy"));
  read_mesh(text("mesh"), where("mesh"), is_torchtitan, choice);
  choice.blocks_per_unit = size_of(file.at("blocks_per_unit"), 0);
  choice.prefetch = named(file.at("prefetch"), std::array{Prefetch::none, Prefetch::post,
                                                          Prefetch::pre, Prefetch::both});
  choice.batch = file.at("batch").integer(1, largest_size - 1);
  choice.micro_batches = size_of(file.at("accumulate"), 1);
  choice.reduces_every_micro_batch = file.at("reduce_every_micro_batch").boolean();
  choice.checkpointing =
      eager::parse_checkpoint_choice(text("checkpointing"), where("checkpointing"));
  choice.offload =
      named(file.at("offload"), std::array{Offload::none, Offload::optimizer, Offload::all});
  choice.precision = parse_training_precision(text("precision"), where("precision"));
  if (file.has("pipeline") && !file.at("pipeline").is_null())
    choice.pipeline = read_pipeline(file.at("pipeline"));
  return choice;
}

}  // namespace shardscope::planner
