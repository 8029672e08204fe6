#include "core/schedule/strategy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::array<std::pair<Runtime, std::string_view>, 5> runtimes{
    {{Runtime::native, "native"},
     {Runtime::fsdp1, "fsdp1"},
     {Runtime::fsdp2, "fsdp2"},
     {Runtime::ddp, "ddp"},
     {Runtime::deepspeed, "deepspeed"}}};
constexpr std::array<std::pair<ShardingStrategy, std::string_view>, 6> shardings{
    {{ShardingStrategy::no_shard, "no_shard"},
     {ShardingStrategy::zero1, "zero1"},
     {ShardingStrategy::shard_grad_op, "shard_grad_op"},
     {ShardingStrategy::full_shard, "full_shard"},
     {ShardingStrategy::hybrid_shard, "hybrid_shard"},
     {ShardingStrategy::hybrid_shard_zero2, "hybrid_shard_zero2"}}};
constexpr std::array<std::pair<OptimizerKind, std::string_view>, 2> optimizers{
    {{OptimizerKind::adamw, "adamw"}, {OptimizerKind::sgd, "sgd"}}};

constexpr std::array<std::pair<Checkpointing, std::string_view>, 2> checkpointings{
    {{Checkpointing::none, "none"}, {Checkpointing::full, "full"}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [candidate, name] : table)
    if (candidate == value) return name;
  return "?";
}

template <class Table>
auto parse_in(const Table& table, std::string_view text, std::string_view where) {
  std::string choices;
  for (const auto& [value, name] : table) {
    if (name == text) return value;
    choices += (choices.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(
      {.where = std::string(where), .what = "\"" + std::string(text) + "\" is none of " + choices});
}

std::optional<std::int64_t> positive_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

/// Also "1e7", as people write sizes.
std::optional<std::int64_t> positive_size(std::string_view text) {
  const std::size_t exponent = text.find_first_of("eE");
  if (exponent == std::string_view::npos) return positive_integer(text);
  const auto digits = positive_integer(text.substr(0, exponent));
  const auto zeros = positive_integer(text.substr(exponent + 1));
  if (!digits || !zeros || *zeros > 18) return std::nullopt;
  std::int64_t value = *digits;
  for (std::int64_t i = 0; i < *zeros; ++i)
    if (__builtin_mul_overflow(value, 10, &value)) return std::nullopt;
  return value;
}

int* axis_of(Mesh& mesh, std::string_view name) {
  if (name == "pipeline") return &mesh.pipeline;
  if (name == "replicate") return &mesh.replicate;
  if (name == "shard") return &mesh.shard;
  return nullptr;
}

}  // namespace

std::string_view name_of(Runtime runtime) { return name_in(runtimes, runtime); }
std::string_view name_of(ShardingStrategy strategy) { return name_in(shardings, strategy); }
std::string_view name_of(OptimizerKind kind) { return name_in(optimizers, kind); }
std::string_view name_of(Checkpointing checkpointing) {
  return name_in(checkpointings, checkpointing);
}

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::hybrid_shard ||
         strategy == ShardingStrategy::hybrid_shard_zero2;
}

ShardingStrategy parse_sharding_strategy(std::string_view text, std::string_view where) {
  return parse_in(shardings, text, where);
}
Runtime parse_runtime(std::string_view text, std::string_view where) {
  return parse_in(runtimes, text, where);
}
OptimizerKind parse_optimizer(std::string_view text, std::string_view where) {
  return parse_in(optimizers, text, where);
}

Checkpointing parse_checkpointing(std::string_view text, std::string_view where) {
  return parse_in(checkpointings, text, where);
}

Wrap parse_wrap(std::string_view text, std::string_view where) {
  if (text == "transformer") return {.policy = WrapPolicy::transformer};
  if (text == "none") return {.policy = WrapPolicy::none};
  if (text.starts_with("size:")) {
    if (const auto elements = positive_size(text.substr(5)))
      return {.policy = WrapPolicy::size, .min_elements = *elements};
  }
  throw Error({.where = std::string(where),
               .what = "\"" + std::string(text) + "\" is none of transformer, none, size:N",
               .way_out = "give for example size:1000000 (elements of a unit)"});
}

std::string text_of(const Wrap& wrap) {
  switch (wrap.policy) {
    case WrapPolicy::transformer:
      return "transformer";
    case WrapPolicy::size:
      return "size:" + std::to_string(wrap.min_elements);
    case WrapPolicy::none:
      return "none";
  }
  return "?";
}

Mesh parse_mesh(std::string_view text, std::string_view where) {
  const auto fail = [&](std::string what) -> Error {
    return Error({.where = std::string(where),
                  .what = std::move(what),
                  .way_out = "give axes as in pipeline=1,replicate=2,shard=4"});
  };
  Mesh mesh;
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const auto equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    int* axis = axis_of(mesh, name);
    if (axis == nullptr)
      throw fail("\"" + std::string(name) + "\" is none of pipeline, replicate, shard");
    for (std::string_view earlier : seen)
      if (earlier == name) throw fail("axis " + std::string(name) + " stands twice");
    seen.push_back(name);
    const auto size =
        equals == std::string_view::npos ? std::nullopt : positive_integer(part.substr(equals + 1));
    if (!size || *size > 1'000'000)
      throw fail("axis " + std::string(name) + " needs a size from 1 to 1000000, got \"" +
                 std::string(part) + "\"");
    *axis = static_cast<int>(*size);
  }
  if (seen.empty()) throw fail("the mesh has no axis");
  constexpr std::int64_t most_ranks = 1 << 20;
  const std::int64_t ranks = std::int64_t{mesh.pipeline} * mesh.replicate;
  if (ranks > most_ranks || ranks * mesh.shard > most_ranks)
    throw fail("the axes multiply to more than " + std::to_string(most_ranks) + " ranks");
  return mesh;
}

std::string text_of(const Mesh& mesh) {
  std::string text =
      "replicate=" + std::to_string(mesh.replicate) + ",shard=" + std::to_string(mesh.shard);
  return mesh.pipeline == 1 ? text : "pipeline=" + std::to_string(mesh.pipeline) + "," + text;
}

}  // namespace shardscope
