#include "core/schedule/strategy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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
constexpr std::array<std::pair<Offload, std::string_view>, 3> offloads{
    {{Offload::none, "none"}, {Offload::optimizer, "optimizer"}, {Offload::all, "all"}}};
constexpr std::array<std::pair<OptimizerKind, std::string_view>, 2> optimizers{
    {{OptimizerKind::adamw, "adamw"}, {OptimizerKind::sgd, "sgd"}}};

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

/// Of blocks or units.
std::optional<int> small_count(std::string_view text) {
  const auto count = positive_integer(text);
  if (!count || *count > 1000) return std::nullopt;
  return static_cast<int>(*count);
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_backward(std::string_view prefetch) {
  return prefetch == "backward_pre" || prefetch == "backward_post";
}

/// "0+3,1+2"
Wrap wrap_by_hand(std::string_view text, std::string_view where) {
  const auto fail = [&](std::string what) {
    return Error({.where = std::string(where),
                  .what = std::move(what),
                  .way_out = "give the blocks of each unit, as in blocks:0+3,1+2,4+5"});
  };
  Wrap wrap{.policy = WrapPolicy::by_hand};
  std::set<int> seen;
  for (const std::string_view unit : parts_of(text, ',')) {
    std::vector<int>& blocks = wrap.blocks.emplace_back();
    for (const std::string_view part : parts_of(unit, '+')) {
      const auto block = part == "0" ? std::optional(0) : small_count(part);
      if (!block)
        throw fail("a block is a number from 0 to 1000, got \"" + std::string(part) + "\"");
      if (!seen.insert(*block).second) throw fail("block " + std::string(part) + " stands twice");
      blocks.push_back(*block);
    }
    std::ranges::sort(blocks);
  }
  return wrap;
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
std::string_view name_of(Offload offload) { return name_in(offloads, offload); }
std::string_view name_of(OptimizerKind kind) { return name_in(optimizers, kind); }

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::hybrid_shard ||
         strategy == ShardingStrategy::hybrid_shard_zero2;
}

int zero_stage(ShardingStrategy strategy) {
  switch (strategy) {
    case ShardingStrategy::no_shard:
      return 0;
    case ShardingStrategy::zero1:
      return 1;
    case ShardingStrategy::shard_grad_op:
    case ShardingStrategy::hybrid_shard_zero2:
      return 2;
    case ShardingStrategy::full_shard:
    case ShardingStrategy::hybrid_shard:
      return 3;
  }
  return 0;
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

Offload parse_offload(std::string_view text, std::string_view where) {
  return parse_in(offloads, text, where);
}

Checkpointing parse_checkpointing(std::string_view text, std::string_view where) {
  const auto fail = [&](std::string_view part) {
    return Error(
        {.where = std::string(where),
         .what = "\"" + std::string(part) + "\" is none of none, full, every:K, first:N, selective",
         .way_out = "give for example every:2 (every second block), or "
                    "selective+first:4"});
  };
  Checkpointing result;
  if (text == "none") return result;
  for (const std::string_view part : parts_of(text, '+')) {
    if (part == "full")
      result.every = 1;
    else if (part == "selective")
      result.selective = true;
    else if (part.starts_with("every:"))
      result.every = small_count(part.substr(6)).value_or(0);
    else if (part.starts_with("first:"))
      result.first = small_count(part.substr(6)).value_or(0);
    const bool sized = part.starts_with("every:")   ? result.every > 0
                       : part.starts_with("first:") ? result.first > 0
                                                    : part == "full" || part == "selective";
    if (!sized) throw fail(part);
  }
  return result;
}

Prefetching parse_prefetching(std::string_view text, std::string_view where) {
  if (text == "on") return {};
  Prefetching result{.forward = 0, .backward = 0};
  if (text == "off") return result;
  const auto fail = [&](std::string what) {
    return Error({.where = std::string(where),
                  .what = std::move(what),
                  .way_out = "give on, off, or for example forward=2,backward_pre=2,limit=3"});
  };
  for (const std::string_view part : parts_of(text, ',')) {
    const auto equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const bool bare = equals == std::string_view::npos;
    const auto count = bare ? std::optional(1) : small_count(part.substr(equals + 1));
    if (!count)
      throw fail(std::string(name) + " needs a number of units from 1 to 1000, got \"" +
                 std::string(part) + "\"");
    int* const units = name == "forward"   ? &result.forward
                       : name == "limit"   ? &result.limit
                       : is_backward(name) ? &result.backward
                                           : nullptr;
    if (units == nullptr || (bare && name == "limit"))
      throw fail("\"" + std::string(part) +
                 "\" is none of on, off, forward=K, backward_pre=K, backward_post=K, limit=N");
    if (*units != 0)
      throw fail((is_backward(name) ? "backward_pre or backward_post" : std::string(name)) +
                 " stands twice");
    *units = *count;
    if (name == "backward_post") result.backward_post = true;
  }
  return result;
}

Wrap parse_wrap(std::string_view text, std::string_view where) {
  if (text == "transformer") return {.policy = WrapPolicy::transformer};
  if (text == "none") return {.policy = WrapPolicy::none};
  if (text.starts_with("size:")) {
    if (const auto elements = positive_size(text.substr(5)))
      return {.policy = WrapPolicy::size, .min_elements = *elements};
  }
  if (text.starts_with("blocks:")) return wrap_by_hand(text.substr(7), where);
  throw Error(
      {.where = std::string(where),
       .what = "\"" + std::string(text) + "\" is none of transformer, none, size:N, blocks:N+N,N+N",
       .way_out = "give for example size:1000000 (elements of a unit), or blocks:0+3,1+2"});
}

std::string text_of(const Wrap& wrap) {
  switch (wrap.policy) {
    case WrapPolicy::transformer:
      return "transformer";
    case WrapPolicy::size:
      return "size:" + std::to_string(wrap.min_elements);
    case WrapPolicy::by_hand: {
      std::string text;
      for (const std::vector<int>& unit : wrap.blocks) {
        text += text.empty() ? "blocks:" : ",";
        for (std::size_t i = 0; i < unit.size(); ++i)
          text += (i == 0 ? "" : "+") + std::to_string(unit[i]);
      }
      return text;
    }
    case WrapPolicy::none:
      return "none";
  }
  return "?";
}

std::string text_of(const Prefetching& prefetching) {
  if (prefetching == Prefetching{}) return "on";
  std::string text;
  const auto add = [&](std::string_view name, int units, bool always_sized = false) {
    if (units == 0) return;
    text.append(text.empty() ? "" : ",").append(name);
    if (units != 1 || always_sized) text += "=" + std::to_string(units);
  };
  add("forward", prefetching.forward);
  add(prefetching.backward_post ? "backward_post" : "backward_pre", prefetching.backward);
  add("limit", prefetching.limit, true);
  return text.empty() ? "off" : text;
}

std::string text_of(const Checkpointing& checkpointing) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "+") + part; };
  if (checkpointing.selective) add("selective");
  if (checkpointing.every == 1) add("full");
  if (checkpointing.every > 1) add("every:" + std::to_string(checkpointing.every));
  if (checkpointing.first > 0) add("first:" + std::to_string(checkpointing.first));
  return text.empty() ? "none" : text;
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
      throw fail("\"" + std::string(name) +
                 "\" is none of pipeline, replicate, shard (fsdp2 also has tensor)");
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
