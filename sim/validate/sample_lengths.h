// How long the samples are of the data that a source's script trains on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardscope {

/// Tokens.
struct SampleLengths {
  double mean = 0, deviation = 0;
  std::int64_t least = 1, greatest = 1;
};

/// By the script that a row's source names. None: not known.
std::optional<SampleLengths> sample_lengths(std::string_view source);

/// Of `micro_batches` micro-batches the longest of `sequences` samples each, as padding makes them.
/// Samples are log-normal with this mean and deviation, between least and greatest, and cut at
/// `cap`. The same for the same arguments.
std::vector<std::int64_t> drawn_lengths(const SampleLengths& samples,
                                        std::optional<std::int64_t> cap, std::int64_t sequences,
                                        int micro_batches, std::uint32_t order = 1);

/// planner::growing_lengths of such micro-batches.
std::vector<std::int64_t> growing_lengths(const SampleLengths& samples,
                                          std::optional<std::int64_t> cap, std::int64_t sequences,
                                          int micro_batches);

/// Tokens of the longest of `micro_batches` micro-batches of `sequences` such samples each, without
/// padding: of 101 orders the median.
std::int64_t greatest_sum(const SampleLengths& samples, std::optional<std::int64_t> cap,
                          std::int64_t sequences, int micro_batches);

}  // namespace shardscope
