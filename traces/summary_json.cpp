// Summary to JSON and back: the keys of docs/cli.md stand here and nowhere else.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"
#include "traces/memory_fit.h"
#include "traces/summary.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

std::string category_key(MemoryCategory category) {
  return fmt::format("{}_bytes", name_of(category));
}

Json categories_json(const CategoryBytes& bytes) {
  Json json = Json::object();
  for (const MemoryCategory category : memory_categories)
    json[category_key(category)] = bytes[category].count;
  return json;
}

/// 0 where there is no communication.
double overlap_share(const Accounting& time) {
  if (time.communication.ns == 0) return 0;
  return static_cast<double>(time.overlap.ns) / static_cast<double>(time.communication.ns);
}

Json time_json(const Accounting& time) {
  return {{"compute_ns", time.compute.ns},
          {"exposed_communication_ns", time.exposed_communication.ns},
          {"exposed_copy_ns", time.exposed_copy.ns},
          {"idle_ns", time.idle.ns},
          {"communication_ns", time.communication.ns},
          {"overlap_ns", time.overlap.ns},
          {"overlap_share", overlap_share(time)}};
}

Json memory_json(const MemorySummary& memory) {
  return {{"peak_allocated_bytes", memory.peak_allocated.count},
          {"peak_active_bytes", memory.peak_active.count},
          {"peak_reserved_bytes", memory.peak_reserved.count},
          {"arena_bytes", memory.arena.count},
          {"outside_bytes", memory.outside.count},
          {"pss_bytes", memory.pss.count > 0 ? Json(memory.pss.count) : Json(nullptr)},
          {"at_operation", memory.at_operation},
          {"at_peak", categories_json(memory.at_peak)},
          {"maximum", categories_json(memory.maximum)}};
}

/// A time that nothing took is not there: a run that ends early has no step that repeats.
Json time_or_null(Duration time) { return time > Duration{} ? Json(time.ns) : Json(nullptr); }

Json step_json(const StepSummary& step) {
  return {{"label", step.label},
          {"step", step.step},
          {"step_time_ns", time_or_null(step.time.span)},
          {"time", time_json(step.time)},
          {"memory", memory_json(step.memory)}};
}

Json unit_json(const UnitAccounting& unit) {
  return {{"unit", unit.unit},
          {"compute_ns", unit.compute.ns},
          {"communication_ns", unit.communication.ns},
          {"exposed_communication_ns", unit.exposed_communication.ns},
          {"communication_bytes", unit.communication_bytes.count}};
}

Json collective_json(const CollectiveSummary& collective) {
  return {{"kind", collective.kind},           {"group", collective.group},
          {"ranks", collective.ranks},         {"bytes", collective.bytes.count},
          {"times", collective.times},         {"time_ns", collective.time.ns},
          {"algorithm", collective.algorithm}, {"protocol", collective.protocol},
          {"channels", collective.channels}};
}

Json hooks_json(const ModuleHooks& hooks) {
  return {{"times", hooks.times}, {"time_ns", hooks.time.ns}};
}

template <class Values, class Convert>
Json array_json(const Values& values, Convert convert) {
  Json json = Json::array();
  for (const auto& value : values) json.push_back(convert(value));
  return json;
}

Json allowance_json(const MemoryAllowance& one) {
  return {{"item", one.item},
          {"below_bytes", one.below.count},
          {"above_bytes", one.above.count},
          {"source", one.source}};
}

Json outside_json(const OutsideItem& item) {
  return {{"item", item.item}, {"bytes", item.bytes.count}, {"source", item.source}};
}

Json out_of_memory_json(const OutOfMemorySummary& failure) {
  return {{"step", failure.step},
          {"operation", failure.operation},
          {"unit", failure.unit},
          {"module", failure.module},
          {"requested_bytes", failure.requested.count},
          {"allocated_bytes", failure.allocated.count},
          {"active_bytes", failure.active.count},
          {"reserved_bytes", failure.reserved.count},
          {"free_bytes", failure.free.count},
          {"message", failure.message}};
}

Json stage_json(const StageSummary& stage) {
  return {{"rank", stage.rank},
          {"stages", stage.stages},
          {"layers", stage.layers},
          {"compute_ns", stage.compute.ns},
          {"exposed_communication_ns", stage.exposed_communication.ns},
          {"idle_ns", stage.idle.ns},
          {"bubble_share", stage.bubble_share},
          {"activations_bytes", stage.activations.count},
          {"peak_allocated_bytes", stage.peak.count},
          {"peak_reserved_bytes", stage.reserved.count}};
}

Json pipeline_json(const PipelineSummary& pipeline) {
  return {{"schedule", pipeline.schedule},
          {"stages_per_rank", pipeline.stages_per_rank},
          {"micro_batches", pipeline.micro_batches},
          {"bubble_share", pipeline.bubble_share},
          {"ranks", array_json(pipeline.ranks, stage_json)}};
}

Json bytes_or_null(std::optional<Bytes> bytes) { return bytes ? Json(bytes->count) : Json(); }

Json host_memory_json(const Summary& summary) {
  if (!summary.host_memory) return nullptr;
  return {{"per_rank_bytes", summary.host_memory->count},
          {"per_node_bytes", bytes_or_null(summary.host_memory_of_node)},
          {"at_phase", "optimizer"}};
}

Json summary_json(const Summary& summary, std::string_view verb) {
  Json json;
  json["schema"] = fmt::format("shardscope.{}/1", verb);
  json["kind"] = name_of(summary.kind);
  json["strategy"] = summary.strategy;
  json["runtime"] = summary.runtime;
  json["world"] = summary.world;
  json["precision"] = summary.precision;
  json["fits"] = summary.fits;
  json["fits_word"] = name_of(memory_fit(summary));
  json["device_memory_bytes"] = bytes_or_null(summary.device_memory);
  json["needs_bytes"] = needed_memory(summary).count;
  const NeededMemory band = memory_band(summary);
  json["memory_low_bytes"] = band.low.count;
  json["memory_high_bytes"] = summary.out_of_memory ? Json(nullptr) : Json(band.high.count);
  json["margin_bytes"] = bytes_or_null(free_memory(summary));
  json["wanted_margin_bytes"] =
      summary.device_memory ? Json(margin_wanted(summary).count) : Json(nullptr);
  json["host_memory"] = host_memory_json(summary);
  json["assumed"] = summary.assumed;
  json["step_time_ns"] = time_or_null(summary.step_time);
  json["step_time_low_ns"] = time_or_null(summary.step_time_low);
  json["step_time_high_ns"] = time_or_null(summary.step_time_high);
  const bool has_rate = !summary.out_of_memory && summary.tokens_per_s > 0;
  json["tokens_per_s"] = has_rate ? Json(summary.tokens_per_s) : Json(nullptr);
  json["tokens_per_s_per_device"] =
      has_rate ? Json(summary.tokens_per_s_per_device) : Json(nullptr);
  json["mfu_share"] = summary.mfu_share ? Json(*summary.mfu_share) : Json(nullptr);
  json["mfu_formula"] = summary.mfu_formula;
  json["time"] = time_json(summary.time);
  json["memory"] = memory_json(summary.memory);
  json["steps"] = array_json(summary.steps, step_json);
  json["by_unit"] = array_json(summary.by_unit, unit_json);
  json["collectives"] = array_json(summary.collectives, collective_json);
  json["module_hooks"] = summary.hooks ? hooks_json(*summary.hooks) : Json(nullptr);
  json["outside"] = array_json(summary.outside, outside_json);
  json["memory_allowances"] = array_json(summary.allowances, allowance_json);
  json["out_of_memory"] =
      summary.out_of_memory ? out_of_memory_json(*summary.out_of_memory) : Json(nullptr);
  json["pipeline"] = summary.pipeline ? pipeline_json(*summary.pipeline) : Json(nullptr);
  return json;
}

// Reading.

Duration duration_at(const JsonValue& object, std::string_view key) {
  return {object.at(key).integer()};
}
Bytes bytes_at(const JsonValue& object, std::string_view key) { return {object.at(key).integer()}; }

/// 0 where it is null.
Duration time_at(const JsonValue& object, std::string_view key) {
  const JsonValue value = object.at(key);
  return value.is_null() ? Duration{} : Duration{value.integer()};
}
double rate_at(const JsonValue& object, std::string_view key) {
  const JsonValue value = object.at(key);
  return value.is_null() ? 0 : value.number();
}

CategoryBytes read_categories(const JsonValue& object) {
  CategoryBytes bytes;
  for (const MemoryCategory category : memory_categories)
    bytes[category] = bytes_at(object, category_key(category));
  return bytes;
}

Accounting read_time(const JsonValue& object, Duration span) {
  return {.span = span,
          .compute = duration_at(object, "compute_ns"),
          .exposed_communication = duration_at(object, "exposed_communication_ns"),
          .exposed_copy = duration_at(object, "exposed_copy_ns"),
          .idle = duration_at(object, "idle_ns"),
          .communication = duration_at(object, "communication_ns"),
          .overlap = duration_at(object, "overlap_ns")};
}

MemorySummary read_memory(const JsonValue& object) {
  MemorySummary memory;
  memory.peak_allocated = bytes_at(object, "peak_allocated_bytes");
  memory.peak_active = bytes_at(object, "peak_active_bytes");
  memory.peak_reserved = bytes_at(object, "peak_reserved_bytes");
  memory.arena = bytes_at(object, "arena_bytes");
  memory.outside = bytes_at(object, "outside_bytes");
  if (object.find("pss_bytes")) memory.pss = bytes_at(object, "pss_bytes");
  memory.at_operation = object.at("at_operation").string();
  memory.at_peak = read_categories(object.at("at_peak"));
  memory.maximum = read_categories(object.at("maximum"));
  return memory;
}

StepSummary read_step(const JsonValue& object) {
  return {.label = object.at("label").string(),
          .step = static_cast<int>(object.at("step").integer(0, std::numeric_limits<int>::max())),
          .time = read_time(object.at("time"), time_at(object, "step_time_ns")),
          .memory = read_memory(object.at("memory"))};
}

UnitAccounting read_unit(const JsonValue& object) {
  return {.unit = object.at("unit").string(),
          .compute = duration_at(object, "compute_ns"),
          .communication = duration_at(object, "communication_ns"),
          .exposed_communication = duration_at(object, "exposed_communication_ns"),
          .communication_bytes = bytes_at(object, "communication_bytes")};
}

CollectiveSummary read_collective(const JsonValue& object) {
  return {.kind = object.at("kind").string(),
          .group = object.at("group").string(),
          .ranks = object.at("ranks").integer(),
          .bytes = bytes_at(object, "bytes"),
          .times = object.at("times").integer(),
          .time = duration_at(object, "time_ns"),
          .algorithm = object.at("algorithm").string(),
          .protocol = object.at("protocol").string(),
          .channels = object.at("channels").integer()};
}

TraceKind read_kind(const JsonValue& value) {
  const std::string text = value.string();
  for (const TraceKind kind : {TraceKind::predicted, TraceKind::profiled, TraceKind::imported}) {
    if (name_of(kind) == text) return kind;
  }
  throw value.error(fmt::format("expected predicted, profiled or imported, got \"{}\"", text));
}

OutsideItem read_outside(const JsonValue& object) {
  return {.item = object.at("item").string(),
          .bytes = bytes_at(object, "bytes"),
          .source = object.at("source").string()};
}

Bytes allowance_at(const JsonValue& object, std::string_view key) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  return {object.at(key).integer(0, most)};
}

MemoryAllowance read_allowance(const JsonValue& object) {
  return {.item = object.at("item").string(),
          .below = allowance_at(object, "below_bytes"),
          .above = allowance_at(object, "above_bytes"),
          .source = object.at("source").string()};
}

OutOfMemorySummary read_out_of_memory(const JsonValue& object) {
  return {.step = object.at("step").string(),
          .operation = object.at("operation").string(),
          .unit = object.at("unit").string(),
          .module = object.at("module").string(),
          .requested = bytes_at(object, "requested_bytes"),
          .allocated = bytes_at(object, "allocated_bytes"),
          .active = bytes_at(object, "active_bytes"),
          .reserved = bytes_at(object, "reserved_bytes"),
          .free = bytes_at(object, "free_bytes"),
          .message = object.at("message").string()};
}

int count_at(const JsonValue& object, std::string_view key, std::int64_t least) {
  return static_cast<int>(object.at(key).integer(least, std::numeric_limits<int>::max()));
}

StageSummary read_stage(const JsonValue& object) {
  StageSummary stage{.rank = count_at(object, "rank", 0),
                     .stages = {},
                     .layers = count_at(object, "layers", 0),
                     .compute = duration_at(object, "compute_ns"),
                     .exposed_communication = duration_at(object, "exposed_communication_ns"),
                     .idle = duration_at(object, "idle_ns"),
                     .bubble_share = object.at("bubble_share").number(),
                     .activations = bytes_at(object, "activations_bytes"),
                     .peak = bytes_at(object, "peak_allocated_bytes"),
                     .reserved = bytes_at(object, "peak_reserved_bytes")};
  for (const JsonValue& number : object.at("stages").elements())
    stage.stages.push_back(static_cast<int>(number.integer(0, std::numeric_limits<int>::max())));
  return stage;
}

PipelineSummary read_pipeline(const JsonValue& object) {
  PipelineSummary pipeline{.schedule = object.at("schedule").string(),
                           .stages_per_rank = count_at(object, "stages_per_rank", 1),
                           .micro_batches = count_at(object, "micro_batches", 1),
                           .bubble_share = object.at("bubble_share").number(),
                           .ranks = {}};
  for (const JsonValue& rank : object.at("ranks").elements())
    pipeline.ranks.push_back(read_stage(rank));
  return pipeline;
}

/// Names are drawn and laid out, which takes long of what is no name.
std::string short_string(const JsonValue& value) {
  constexpr std::size_t most_bytes = 1000;
  std::string text = value.string();
  if (text.size() > most_bytes)
    throw value.error(
        fmt::format("a name of {} bytes; it has {} at most", text.size(), most_bytes));
  return text;
}

Summary summary_of(const JsonValue& object) {
  Summary summary;
  summary.kind = read_kind(object.at("kind"));
  summary.strategy = short_string(object.at("strategy"));
  summary.runtime = short_string(object.at("runtime"));
  summary.world = static_cast<int>(object.at("world").integer(1, std::numeric_limits<int>::max()));
  summary.precision = short_string(object.at("precision"));
  summary.fits = object.at("fits").boolean();
  if (const auto memory = object.find("device_memory_bytes"))
    summary.device_memory = Bytes{memory->integer(0)};
  if (const auto host = object.find("host_memory")) {
    summary.host_memory = Bytes{host->at("per_rank_bytes").integer(0)};
    if (const auto node = host->find("per_node_bytes"))
      summary.host_memory_of_node = Bytes{node->integer(0)};
  }
  for (const JsonValue& text : object.at("assumed").elements())
    summary.assumed.push_back(text.string());
  summary.step_time = time_at(object, "step_time_ns");
  summary.step_time_low = time_at(object, "step_time_low_ns");
  summary.step_time_high = time_at(object, "step_time_high_ns");
  summary.tokens_per_s = rate_at(object, "tokens_per_s");
  summary.tokens_per_s_per_device = rate_at(object, "tokens_per_s_per_device");
  if (const auto share = object.find("mfu_share")) summary.mfu_share = share->number();
  summary.mfu_formula = object.at("mfu_formula").string();
  summary.time = read_time(object.at("time"), summary.step_time);
  summary.memory = read_memory(object.at("memory"));
  for (const JsonValue& step : object.at("steps").elements())
    summary.steps.push_back(read_step(step));
  for (const JsonValue& unit : object.at("by_unit").elements())
    summary.by_unit.push_back(read_unit(unit));
  if (const auto collectives = object.find("collectives"))
    for (const JsonValue& one : collectives->elements())
      summary.collectives.push_back(read_collective(one));
  if (const auto hooks = object.find("module_hooks"))
    summary.hooks = {.times = hooks->at("times").integer(0),
                     .time = duration_at(*hooks, "time_ns")};
  if (const auto outside = object.find("outside"))
    for (const JsonValue& item : outside->elements()) summary.outside.push_back(read_outside(item));
  if (const auto allowances = object.find("memory_allowances"))
    for (const JsonValue& one : allowances->elements())
      summary.allowances.push_back(read_allowance(one));
  if (const auto failure = object.find("out_of_memory"))
    summary.out_of_memory = read_out_of_memory(*failure);
  if (const auto pipeline = object.find("pipeline")) summary.pipeline = read_pipeline(*pipeline);
  if (const auto margin = object.find("wanted_margin_bytes"))
    if (const Bytes wanted{margin->integer(0)}; wanted != margin_wanted(summary))
      summary.margin = wanted;
  return summary;
}

}  // namespace

std::string to_json(const Summary& summary, std::string_view verb) {
  return summary_json(summary, verb).dump(2, ' ', false, Json::error_handler_t::replace);
}

void write_summary(const Summary& summary, std::string_view verb,
                   const std::filesystem::path& path) {
  write_atomically(path, to_json(summary, verb) + "\n");
}

Summary parse_summary(std::string_view text, std::string_view file_name) {
  return summary_of(JsonValue::parse(text, file_name));
}

Summary read_summary(const std::filesystem::path& path) {
  return summary_of(JsonValue::read_file(path));
}

}  // namespace shardscope
