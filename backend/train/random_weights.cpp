#include "backend/train/random_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/train/philox.h"

namespace shardscope {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::array<std::uint32_t, 2> halves(std::uint64_t value) {
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}

/// Two independent standard normals from two numbers.
std::array<double, 2> box_muller(std::uint32_t a, std::uint32_t b) {
  // In (0, 1], so that the logarithm is finite.
  const double uniform = (static_cast<double>(a) + 1) * 0x1p-32;
  const double angle = 2 * std::numbers::pi * static_cast<double>(b) * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(uniform));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void draw_normal(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                 std::span<float> out) {
  const auto key = halves(seed);
  const auto name = halves(fnv1a(parameter.name));
  const double deviation = parameter.initialization.standard_deviation;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t element = static_cast<std::uint64_t>(first) + done;
    const auto block = halves(element / 4);
    const auto bits = philox4x32({block[0], block[1], name[0], name[1]}, key);
    const auto low = box_muller(bits[0], bits[1]);
    const auto high = box_muller(bits[2], bits[3]);
    const std::array<double, 4> normal{low[0], low[1], high[0], high[1]};
    for (std::size_t lane = element % 4; lane < 4 && done < out.size(); ++lane, ++done) {
      out[done] = static_cast<float>(deviation * normal[lane]);
    }
  }
}

}  // namespace

void draw(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
          std::span<float> out) {
  switch (parameter.initialization.kind) {
    case Initialization::Kind::zeros:
      std::ranges::fill(out, 0.0F);
      return;
    case Initialization::Kind::ones:
      std::ranges::fill(out, 1.0F);
      return;
    case Initialization::Kind::normal:
      draw_normal(parameter, seed, first, out);
  }
}

void draw_by_threads(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                     std::span<float> out, int threads) {
  // About as long as it takes to start a thread.
  constexpr std::size_t least = 1 << 14;
  const std::size_t each = std::max(least, out.size() / static_cast<std::size_t>(threads) + 1);
  std::vector<std::jthread> others;
  std::size_t begin = 0;
  for (; begin + each < out.size(); begin += each)
    others.emplace_back([&, begin] {
      draw(parameter, seed, first + static_cast<std::int64_t>(begin), out.subspan(begin, each));
    });
  draw(parameter, seed, first + static_cast<std::int64_t>(begin), out.subspan(begin));
}

}  // namespace shardscope
