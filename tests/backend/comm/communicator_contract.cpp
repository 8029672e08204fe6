#include "tests/backend/comm/communicator_contract.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/bfloat16.h"
#include "core/base/error.h"

namespace shardscope::testing {
namespace {

template <class A, class B>
void expect_equal(const A& actual, const B& expected, const char* what) {
  if (!(actual == expected)) {
    throw std::runtime_error(fmt::format("{}: {} instead of {}", what, actual, expected));
  }
}

template <class T>
std::span<std::byte> bytes(std::span<T> values) {
  return std::as_writable_bytes(values);
}
template <class T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// Where a check's buffers lie.
enum class Place { heap, arena, heap_on_odd_ranks };
constexpr std::array places{Place::heap, Place::arena, Place::heap_on_odd_ranks};

/// Buffers of one check, from the arena or the heap.
class Buffers {
 public:
  explicit Buffers(Communicator& group) : rank_(group.rank()) {
    arena_ = group.allocate_arena(24_MiB);
  }

  template <class T>
  std::span<T> take(Place place, std::size_t count) {
    const bool on_heap =
        place == Place::heap || (place == Place::heap_on_odd_ranks && rank_ % 2 == 1);
    if (on_heap) {
      heap_.emplace_back(count * sizeof(T) + 1);
      return {reinterpret_cast<T*>(heap_.back().data()), count};
    }
    std::byte* const start = arena_->data() + used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    if (used_ > static_cast<std::size_t>(arena_->size().count)) throw std::runtime_error("small");
    return {reinterpret_cast<T*>(start), count};
  }
  /// Starts again at the arena's beginning.
  void reuse() { used_ = 0; }

 private:
  int rank_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::vector<std::byte>> heap_;
  std::size_t used_ = 0;
};

// Nothing, one, odd, and such as need several pieces of staging memory.
constexpr std::array<std::size_t, 6> counts{0, 1, 3, 1001, 70001, 300007};

/// A value that tells rank and place apart, small enough for exact sums in float.
float value(int rank, std::size_t i) {
  return static_cast<float>((rank + 1) * 1000 + static_cast<int>(i % 997));
}
/// Sum over ranks of `value`, in integers.
float sum_of_values(int ranks, std::size_t i) {
  return static_cast<float>(1000 * ranks * (ranks + 1) / 2 + ranks * static_cast<int>(i % 997));
}

void fill(std::span<float> data, int rank, std::size_t first = 0) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(rank, first + i);
}

template <class Body>
void for_each_case(Communicator& group, Body body) {
  Buffers buffers(group);
  for (const Place place : places) {
    for (const std::size_t count : counts) {
      buffers.reuse();
      body(buffers, place, count);
      group.barrier();
    }
  }
}

void check_gathered(std::span<const float> out, std::size_t count, int ranks) {
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      expect_equal(out[static_cast<std::size_t>(r) * count + i], value(r, i), "gathered element");
    }
  }
}

void all_gather_puts_parts_in_rank_order(Communicator& group) {
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto in = buffers.take<float>(place, count);
    const auto out = buffers.take<float>(place, count * static_cast<std::size_t>(group.size()));
    fill(in, group.rank());
    group.all_gather(bytes(in), bytes(out));
    check_gathered(out, count, group.size());
  });
}

void all_gather_from_its_own_part(Communicator& group) {
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto out = buffers.take<float>(place, count * static_cast<std::size_t>(group.size()));
    const auto in = out.subspan(static_cast<std::size_t>(group.rank()) * count, count);
    fill(in, group.rank());
    group.all_gather(bytes(in), bytes(out));
    check_gathered(out, count, group.size());
  });
}

void all_gather_of_odd_bytes(Communicator& group) {
  std::vector<std::uint8_t> in(7, static_cast<std::uint8_t>(group.rank() + 1));
  std::vector<std::uint8_t> out(7 * static_cast<std::size_t>(group.size()));
  group.all_gather(bytes(in), bytes(out));
  for (std::size_t i = 0; i < out.size(); ++i) {
    expect_equal(int{out[i]}, static_cast<int>(i / 7) + 1, "byte");
  }
}

/// The input may be changed as soon as the call returns.
void inputs_are_free_after_the_call(Communicator& group) {
  Buffers buffers(group);
  const auto in = buffers.take<float>(Place::arena, 5000);
  const auto out = buffers.take<float>(Place::arena, 5000 * static_cast<std::size_t>(group.size()));
  for (int turn = 0; turn < 50; ++turn) {
    fill(in, group.rank() + turn);
    group.all_gather(bytes(in), bytes(out));
    fill(in, -1);
    for (int r = 0; r < group.size(); ++r) {
      expect_equal(out[static_cast<std::size_t>(r) * 5000 + 4999], value(r + turn, 4999), "turn");
    }
  }
}

void check_summed(std::span<const float> out, int rank, int ranks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    expect_equal(out[i], sum_of_values(ranks, static_cast<std::size_t>(rank) * count + i), "sum");
  }
}

void reduce_scatter_gives_each_rank_its_part(Communicator& group) {
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto in = buffers.take<float>(place, count * static_cast<std::size_t>(group.size()));
    const auto out = buffers.take<float>(place, count);
    fill(in, group.rank());
    group.reduce_scatter(bytes(in), bytes(out), Dtype::float32);
    check_summed(out, group.rank(), group.size(), count);
  });
}

void reduce_scatter_into_its_own_part(Communicator& group) {
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto in = buffers.take<float>(place, count * static_cast<std::size_t>(group.size()));
    const auto out = in.subspan(static_cast<std::size_t>(group.rank()) * count, count);
    fill(in, group.rank());
    group.reduce_scatter(bytes(in), bytes(out), Dtype::float32);
    check_summed(out, group.rank(), group.size(), count);
  });
}

void all_reduce_sums_everywhere(Communicator& group) {
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto data = buffers.take<float>(place, count);
    fill(data, group.rank());
    group.all_reduce(bytes(data), Dtype::float32);
    check_summed(data, 0, group.size(), count);
  });
}

void all_reduce_of_float64_keeps_its_digits(Communicator& group) {
  // 1 + 2^-40 has no float32.
  std::vector<double> data(3, 1.0 + 0x1p-40);
  group.all_reduce(bytes(data), Dtype::float64);
  const double n = group.size();
  for (const double x : data) expect_equal(x, n + n * 0x1p-40, "sum");
}

void reductions_of_bfloat16_round_once(Communicator& group) {
  // 1 + n / 256 in float32 with n - 1 terms of 1/256: rounding at each step would stay at 1, as
  // 1 + 1/256 lies half-way between 1 and 1 + 2/256.
  const auto n = static_cast<std::size_t>(group.size());
  const Bfloat16 mine = to_bfloat16(group.rank() == 0 ? 1.0f : 1.0f / 256);
  const float sum = to_float(to_bfloat16(1.0f + static_cast<float>(n - 1) / 256));
  std::vector<Bfloat16> in(5000 * n, mine), out(5000);
  group.reduce_scatter(bytes(in), bytes(out), Dtype::bfloat16);
  group.all_reduce(bytes(in), Dtype::bfloat16);
  for (const Bfloat16 x : out) expect_equal(to_float(x), sum, "scattered sum");
  for (const Bfloat16 x : in) expect_equal(to_float(x), sum, "sum");
}

void all_reduce_of_int64_is_exact(Communicator& group) {
  // 2^53 + 1 has no double.
  std::vector<std::int64_t> data(20000, (std::int64_t{1} << 53) + 1);
  group.all_reduce(bytes(data), Dtype::int64);
  for (const std::int64_t x : data) {
    expect_equal(x, group.size() * ((std::int64_t{1} << 53) + 1), "sum");
  }
}

// Orders of summation that can be told apart: near 1e8 floats lie 8 apart, so that 1e8 + 1 is 1e8.
//   2 ranks  1e8 + 1                                              = 1e8
//   3 ranks  (1 + 1e8) - 1e8 = 0,        1 + (1e8 - 1e8)          = 1 in another order
//   4 ranks  (1e8 + 1) + (-1e8 + 1) = 0, ((1e8 + 1) - 1e8) + 1    = 1 one after another, (r0 + r2)
//   + (r1 + r3) = 2
struct OrderCase {
  std::vector<float> by_rank;
  float sum;
};
OrderCase order_case(int ranks) {
  switch (ranks) {
    case 1:
      return {{3.0f}, 3.0f};
    case 2:
      return {{1e8f, 1.0f}, 1e8f};
    case 3:
      return {{1.0f, 1e8f, -1e8f}, 0.0f};
    case 4:
      return {{1e8f, 1.0f, -1e8f, 1.0f}, 0.0f};
    default:
      throw std::runtime_error("no order case for so many ranks");
  }
}

void sums_follow_the_pairwise_tree(Communicator& group) {
  const OrderCase expected = order_case(group.size());
  const float mine = expected.by_rank[static_cast<std::size_t>(group.rank())];
  const auto ranks = static_cast<std::size_t>(group.size());
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto data = buffers.take<float>(place, count);
    const auto in = buffers.take<float>(place, count * ranks);
    const auto out = buffers.take<float>(place, count);
    for (float& x : data) x = mine;
    for (float& x : in) x = mine;
    group.all_reduce(bytes(data), Dtype::float32);
    group.reduce_scatter(bytes(in), bytes(out), Dtype::float32);
    for (std::size_t i = 0; i < count; ++i) {
      expect_equal(data[i], expected.sum, "all_reduce");
      expect_equal(out[i], expected.sum, "reduce_scatter");
    }
  });
}

/// On 2 x 2 ranks: first neighbours (0,1) and (2,3), then (0,2) and (1,3), gives the sum of all
/// four at once.
void two_level_sum_equals_the_flat_one(Communicator& group) {
  if (group.size() != 4) return;
  const auto shard = group.split(group.rank() / 2);
  const auto replicate = group.split(group.rank() % 2);
  const float mine = order_case(4).by_rank[static_cast<std::size_t>(group.rank())];
  std::vector<float> in(10, mine);
  std::vector<float> out(5);
  shard->reduce_scatter(bytes(in), bytes(out), Dtype::float32);
  replicate->all_reduce(bytes(out), Dtype::float32);
  for (const float x : out) expect_equal(x, 0.0f, "two levels");
}

void broadcast_gives_the_roots_bytes(Communicator& group) {
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    for (int root = 0; root < group.size(); ++root) {
      const auto data = buffers.take<float>(place, count);
      fill(data, group.rank());
      group.broadcast(bytes(data), root);
      for (std::size_t i = 0; i < count; ++i) expect_equal(data[i], value(root, i), "element");
      buffers.reuse();
      group.barrier();
    }
  });
}

void send_and_receive_go_round_a_ring(Communicator& group) {
  if (group.size() == 1) return;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  for_each_case(group, [&](Buffers& buffers, Place place, std::size_t count) {
    const auto out = buffers.take<float>(place, count);
    const auto in = buffers.take<float>(place, count);
    fill(out, group.rank());
    // Rank 0 breaks the circle of those that send first.
    if (group.rank() == 0) group.receive(bytes(in), previous);
    group.send(bytes(out), next);
    if (group.rank() != 0) group.receive(bytes(in), previous);
    for (std::size_t i = 0; i < count; ++i) expect_equal(in[i], value(previous, i), "element");
  });
}

void split_orders_by_rank_and_keeps_groups_apart(Communicator& group) {
  const int color = group.rank() % 2;
  const auto half = group.split(color);
  const int members = (group.size() + 1 - color) / 2;
  expect_equal(half->size(), members, "size");
  expect_equal(half->rank(), group.rank() / 2, "rank");
  std::vector<std::int64_t> data(3, group.rank());
  half->all_reduce(bytes(data), Dtype::int64);
  std::int64_t expected = 0;
  for (int r = color; r < group.size(); r += 2) expected += r;
  for (const std::int64_t x : data) expect_equal(x, expected, "sum of the half");
}

void split_of_a_split(Communicator& group) {
  const auto half = group.split(group.rank() / 2);
  const auto one = half->split(half->rank());
  expect_equal(one->size(), 1, "size");
  std::vector<float> data{2.0f};
  one->all_reduce(bytes(data), Dtype::float32);
  expect_equal(data[0], 2.0f, "sum of one");
}

/// Rows and columns of a mesh, used in turn by one thread, and the group of all between them.
void overlapping_groups_in_turn(Communicator& group) {
  Buffers buffers(group);
  const auto row = group.split(group.rank() / 2);
  const auto column = group.split(group.rank() % 2);
  const auto data = buffers.take<float>(Place::arena, 40000);
  const auto heap = buffers.take<float>(Place::heap, 40000);
  for (int turn = 0; turn < 20; ++turn) {
    for (Communicator* part : {row.get(), column.get(), &group}) {
      for (const auto& buffer : {data, heap}) {
        for (float& x : buffer) x = static_cast<float>(turn + 1);
        part->all_reduce(bytes(buffer), Dtype::float32);
        for (const float x : buffer) {
          expect_equal(x, static_cast<float>((turn + 1) * part->size()), "sum");
        }
      }
    }
  }
}

void arena_is_zeroed_and_page_aligned(Communicator& group) {
  const auto arena = group.allocate_arena(100001_B);
  expect_equal(arena->size().count, 100001, "size");
  expect_equal(reinterpret_cast<std::uintptr_t>(arena->data()) % 4096, 0u, "alignment");
  for (std::size_t i = 0; i < 100001; ++i) {
    expect_equal(std::to_integer<int>(arena->data()[i]), 0, "byte");
  }
}

void arena_is_given_once(Communicator& group) {
  const auto arena = group.allocate_arena(4096_B);
  try {
    group.allocate_arena(4096_B);
  } catch (const Error&) {
    return;
  }
  throw std::runtime_error("a second arena was given");
}

template <class Call>
void expect_refused(const char* what, Call call) {
  try {
    call();
  } catch (const Error& error) {
    expect_equal(static_cast<int>(error.code()), 2, what);
    return;
  }
  throw std::runtime_error(fmt::format("{} was accepted", what));
}

void bad_arguments_are_refused_before_anything_moves(Communicator& group) {
  std::vector<std::byte> some(12);
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::byte> whole(12 * ranks);
  std::vector<std::byte> long_whole(12 * ranks + 4);
  expect_refused("a gather of wrong size", [&] { group.all_gather(some, long_whole); });
  expect_refused("a scatter of wrong size",
                 [&] { group.reduce_scatter(long_whole, some, Dtype::float32); });
  expect_refused("a sum of float16", [&] { group.reduce_scatter(whole, some, Dtype::float16); });
  expect_refused("half an element", [&] { group.all_reduce(some, Dtype::float64); });
  expect_refused("root -1", [&] { group.broadcast(some, -1); });
  expect_refused("root n", [&] { group.broadcast(some, group.size()); });
  expect_refused("a send to itself", [&] { group.send(some, group.rank()); });
  expect_refused("color -1", [&] { group.split(-1); });
  group.barrier();
}

constexpr std::array checks{
    ContractCheck{"all_gather_puts_parts_in_rank_order", all_gather_puts_parts_in_rank_order},
    ContractCheck{"all_gather_from_its_own_part", all_gather_from_its_own_part},
    ContractCheck{"all_gather_of_odd_bytes", all_gather_of_odd_bytes},
    ContractCheck{"inputs_are_free_after_the_call", inputs_are_free_after_the_call},
    ContractCheck{"reduce_scatter_gives_each_rank_its_part",
                  reduce_scatter_gives_each_rank_its_part},
    ContractCheck{"reduce_scatter_into_its_own_part", reduce_scatter_into_its_own_part},
    ContractCheck{"all_reduce_sums_everywhere", all_reduce_sums_everywhere},
    ContractCheck{"all_reduce_of_float64_keeps_its_digits", all_reduce_of_float64_keeps_its_digits},
    ContractCheck{"all_reduce_of_int64_is_exact", all_reduce_of_int64_is_exact},
    ContractCheck{"reductions_of_bfloat16_round_once", reductions_of_bfloat16_round_once, true},
    ContractCheck{"sums_follow_the_pairwise_tree", sums_follow_the_pairwise_tree, true},
    ContractCheck{"two_level_sum_equals_the_flat_one", two_level_sum_equals_the_flat_one, true},
    ContractCheck{"broadcast_gives_the_roots_bytes", broadcast_gives_the_roots_bytes},
    ContractCheck{"send_and_receive_go_round_a_ring", send_and_receive_go_round_a_ring},
    ContractCheck{"split_orders_by_rank_and_keeps_groups_apart",
                  split_orders_by_rank_and_keeps_groups_apart},
    ContractCheck{"split_of_a_split", split_of_a_split},
    ContractCheck{"overlapping_groups_in_turn", overlapping_groups_in_turn},
    ContractCheck{"arena_is_zeroed_and_page_aligned", arena_is_zeroed_and_page_aligned},
    ContractCheck{"arena_is_given_once", arena_is_given_once},
    ContractCheck{"bad_arguments_are_refused_before_anything_moves",
                  bad_arguments_are_refused_before_anything_moves},
};

}  // namespace

std::span<const ContractCheck> contract_checks() { return checks; }

}  // namespace shardscope::testing
