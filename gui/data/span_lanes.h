// Spans of one lane in columns, and what of them each pixel shows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"
#include "traces/trace.h"

namespace shardscope::gui {

/// What a span looks like. In the order in which ties of a pixel are decided.
enum class SpanColour : std::uint8_t {
  gather,      ///< all-gather and broadcast
  reduce,      ///< reduce-scatter, all-reduce and reduce
  exchange,    ///< any other collective
  copy,        ///< copies and memsets
  backward,    ///< compute by its phase
  forward,     ///< compute
  optimizer,   ///< compute
  compute,     ///< of no known phase
  host,        ///< calls of the host
  annotation,  ///< what the trace's maker marked
};
inline constexpr std::size_t span_colour_count = 10;
std::string_view name_of(SpanColour colour);

SpanColour colour_of(OperationKind kind, Phase phase);
SpanColour colour_of(SpanClass span_class);
bool is_communication(SpanColour colour);

/// Spans that follow one another, none beginning before the one before it has ended. 23.75 bytes a
/// span.
class SpanLane {
 public:
  /// Times in nanoseconds; to be called by rising begin. What lies under the span before is cut
  /// off: lanes are laid out so that this happens only beyond their greatest number.
  void add(std::int64_t begin, std::int64_t end, std::uint32_t id, SpanColour colour);
  /// To be called once all spans are there.
  void finish();

  std::size_t size() const { return begin_.size(); }
  bool empty() const { return begin_.empty(); }
  std::int64_t begin(std::size_t i) const { return begin_[i]; }
  std::int64_t end(std::size_t i) const { return end_[i]; }
  std::uint32_t id(std::size_t i) const { return id_[i]; }
  SpanColour colour(std::size_t i) const { return static_cast<SpanColour>(colour_[i]); }

  /// The first span from `from` on that ends after `time`, or lies at it; `size()`: none.
  std::size_t first_ending_after(std::int64_t time, std::size_t from = 0) const;
  /// The first span from `from` on that begins at `time` or later; `size()`: none.
  std::size_t first_beginning_from(std::int64_t time, std::size_t from = 0) const;
  /// The span at `time`.
  std::optional<std::size_t> at(std::int64_t time) const;

  using Busy = std::array<std::int64_t, span_colour_count>;
  /// Nanoseconds of each colour among the whole spans [first, last).
  Busy busy_of(std::size_t first, std::size_t last) const;
  /// Of all before the i-th: a step or so, and at most `block` additions.
  Busy busy_before(std::size_t i) const;
  static constexpr std::size_t block = 32;  ///< spans between two running sums

  /// Asks the memory for what a search for `time` and the sums there will need. `hint`: 0 at first,
  /// kept from one time to the next, which must be later.
  void fetch_ahead(std::int64_t time, std::size_t& hint) const;

  std::size_t allocated_bytes() const;

 private:
  std::vector<std::int64_t> begin_, end_;
  std::vector<std::uint32_t> id_;
  std::vector<std::uint8_t> colour_;
  std::vector<Busy> before_;               ///< of all spans before the n-th block
  std::vector<std::int64_t> block_begin_;  ///< of each block's first span
};

/// What one pixel of a lane shows.
struct LanePixel {
  static constexpr std::uint8_t blank = 255;
  std::uint8_t colour = blank;  ///< a SpanColour: the one that is busy longest inside the pixel
  std::uint8_t busy = 0;        ///< of the pixel's time, 255: all of it
  bool operator==(const LanePixel&) const = default;
};

/// A span that is wide enough to be seen by itself, over the pixels [left, right).
struct WideSpan {
  std::size_t index = 0;  ///< into the lane
  int left = 0, right = 0;
};

struct LanePicture {
  std::vector<LanePixel> pixels;
  std::vector<WideSpan> wide;
};

/// Spans of this many pixels and more are drawn one by one.
inline constexpr int wide_span_pixels = 4;

/// What the lane shows over pixels whose edges lie at `edges` on its clock (ascending, one more
/// than there are pixels; a pixel is at least 1 ns wide). Every span that meets the range touches a
/// pixel that is not blank. A pixel shows the colour that is busy longest inside it, the first one
/// in the order of SpanColour where several are; where spans without duration are all there is,
/// the first one's. O(pixels * log spans), whatever the number of spans.
void draw_lane(const SpanLane& lane, std::span<const std::int64_t> edges, LanePicture& picture);

/// Begin and end of something, to be laid on lanes.
struct LaneItem {
  std::int64_t begin = 0, end = 0;
  std::uint32_t id = 0;
  SpanColour colour = SpanColour::compute;
};

/// Lanes that one track may have; what overlaps more deeply shares the last.
inline constexpr std::size_t most_lanes = 64;

/// Each item on the first lane that is free at its begin. `items` by rising begin.
std::vector<SpanLane> lay_on_lanes(std::span<const LaneItem> items);

}  // namespace shardscope::gui
