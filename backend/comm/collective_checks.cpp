#include "backend/comm/collective_checks.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

[[noreturn]] void fail(std::string_view operation, std::string what) {
  throw Error({.where = std::string(operation), .what = std::move(what), .way_out = {}});
}

void check_multiple(std::string_view operation, std::size_t part, std::size_t whole, int ranks) {
  if (part * static_cast<std::size_t>(ranks) == whole) return;
  fail(operation, fmt::format("a part of {} B, {} ranks and {} B in all do not fit together", part,
                              ranks, whole));
}

bool is_floating(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::float64 || dtype == Dtype::bfloat16;
}

void check_sum(std::string_view operation, std::size_t bytes, Dtype dtype, bool may_sum) {
  if (!may_sum) fail(operation, fmt::format("{} cannot be summed", name_of(dtype)));
  const auto element = static_cast<std::size_t>(size_of(dtype).count);
  if (bytes % element != 0) {
    fail(operation, fmt::format("{} B are not whole elements of {} B", bytes, element));
  }
}

}  // namespace

void check_all_gather(std::size_t in_bytes, std::size_t out_bytes, int ranks) {
  check_multiple("all_gather", in_bytes, out_bytes, ranks);
}

void check_reduce_scatter(std::size_t in_bytes, std::size_t out_bytes, int ranks, Dtype dtype) {
  check_multiple("reduce_scatter", out_bytes, in_bytes, ranks);
  check_sum("reduce_scatter", out_bytes, dtype, is_floating(dtype));
}

void check_all_reduce(std::size_t bytes, Dtype dtype) {
  check_sum("all_reduce", bytes, dtype, is_floating(dtype) || dtype == Dtype::int64);
}

void check_rank(std::string_view operation, int rank, int ranks) {
  if (rank < 0 || rank >= ranks) fail(operation, fmt::format("no rank {} among {}", rank, ranks));
}

void check_other_rank(std::string_view operation, int peer, int self, int ranks) {
  check_rank(operation, peer, ranks);
  if (peer == self) fail(operation, fmt::format("rank {} with itself", self));
}

void check_color(int color) {
  if (color < 0) fail("split", fmt::format("color {} is negative", color));
}

void check_arena(Bytes size, int ranks, int world) {
  if (size.count < 0) fail("allocate_arena", fmt::format("{} B is negative", size.count));
  if (ranks != world) {
    fail("allocate_arena", fmt::format("called by a group of {} of {} ranks", ranks, world));
  }
}

}  // namespace shardscope
