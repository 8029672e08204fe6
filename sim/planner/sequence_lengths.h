// How long a data set's sequences are, and what their lengths cost: padding, packing, the peak.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace shardscope::planner {

/// Lengths in tokens, ascending, at least one; each at least 1.
struct SequenceLengths {
  std::vector<std::int64_t> ascending;
  double mean() const;
  std::int64_t longest() const { return ascending.back(); }
};

/// One length a line, or a JSON list of them. Throws Error with `name` and the line.
SequenceLengths read_lengths(std::string_view text, std::string_view name);

/// A thousand lengths with this mean and maximum, spread as little is assumed: the geometric
/// distribution on 1 to `longest`, which has the largest entropy of all with that mean. Throws
/// Error unless 1 <= mean <= longest.
SequenceLengths lengths_with(double mean, std::int64_t longest);

/// Lengths of a run's micro-batches; the same for the same order.
using DrawnRun = std::function<std::vector<std::int64_t>(std::uint32_t order)>;

/// Of a run's micro-batches those that are longer than all before them. What the caching allocator
/// keeps grows with these alone: a longer one finds no block that is large enough. Of 101 orders
/// that one whose lengths have the median sum.
std::vector<std::int64_t> growing_lengths(const DrawnRun& drawn);

/// A run of `micro_batches` micro-batches of `sequences` each, every one drawn at random, cut at
/// `cap` and padded to the longest of its micro-batch.
DrawnRun padded_run(const SequenceLengths& lengths, std::int64_t cap, std::int64_t sequences,
                    int micro_batches);

/// Of training on sequences of at most `length` tokens, in micro-batches of `batch` of them that
/// are drawn at random.
struct LengthFigures {
  double cut_share = 0;  ///< tokens beyond `length`, of all
  /// Padding, of the tokens computed: where all are padded to `length`; to the longest of their
  /// micro-batch, expected; where best-fit decreasing packs them into rows of `length`.
  double padding_to_length_share = 0, padding_to_batch_share = 0, padding_when_packed_share = 0;
  double expected_longest = 0;  ///< of a micro-batch
  double at_peak_share = 0;  ///< of micro-batches: have a sequence of the greatest length there is
};

/// Example: lengths 1 and 3, batch 2, length 4: means of 2; longest of a micro-batch 1 in one of
/// four cases, else 3: 2.5. Padded to 4: 50%; to the longest: 1 - 2 / 2.5 = 20%; both fit one row.
LengthFigures length_figures(const SequenceLengths& lengths, std::int64_t length,
                             std::int64_t batch);

}  // namespace shardscope::planner
