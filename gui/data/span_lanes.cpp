#include "gui/data/span_lanes.h"

#include <algorithm>
#include <cmath>

namespace shardscope::gui {
namespace {

/// First index in [from, values.size()) whose value is at `time` or later: galloping, because the
/// next pixel's is mostly near.
std::size_t gallop(const std::vector<std::int64_t>& values, std::size_t from, std::int64_t time) {
  std::size_t step = 1, low = from;
  while (low + step < values.size() && values[low + step] < time) {
    low += step;
    step *= 2;
  }
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(low);
  const auto end =
      values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), low + step + 1));
  return static_cast<std::size_t>(std::lower_bound(begin, end, time) - values.begin());
}

std::uint8_t byte_of(std::int64_t busy, std::int64_t pixel) {
  const double share = static_cast<double>(busy) / static_cast<double>(pixel);
  return static_cast<std::uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255));
}

/// The first pixel at or after `from` in which `time` lies; pixels shorter than a nanosecond share
/// it.
int pixel_of(std::span<const std::int64_t> edges, int from, std::int64_t time) {
  const auto at = std::lower_bound(edges.begin() + from, edges.end(), time);
  const auto pixel = static_cast<int>(at - edges.begin());
  return at != edges.end() && *at == time ? pixel : pixel - 1;
}

class LaneDrawing {
 public:
  LaneDrawing(const SpanLane& lane, std::span<const std::int64_t> edges, LanePicture& picture)
      : lane_(lane), edges_(edges), picture_(picture), pixels_(static_cast<int>(edges.size()) - 1) {
    picture_.pixels.assign(static_cast<std::size_t>(std::max(0, pixels_)), LanePixel{});
    picture_.wide.clear();
  }

  void draw() {
    int x = 0;
    std::size_t first = pixels_ > 0 ? lane_.first_ending_after(edges_[0]) : lane_.size();
    while (x < pixels_ && first < lane_.size()) {
      if (lane_.begin(first) >= right(x)) {
        x = std::max(x + 1, pixel_of(edges_, x, lane_.begin(first)));
        continue;
      }
      const std::size_t next = lane_.first_beginning_from(right(x), first);
      if (next - first > SpanLane::block && x + ahead < pixels_)
        lane_.fetch_ahead(right(x + ahead), fetched_);
      mix(x, first, next);
      x = stretch(x, next - 1);
      first = first_in(x, next);
      if (first == next - 1 && summed_ == next) step_back(first);
    }
  }

 private:
  std::int64_t left(int x) const { return edges_[static_cast<std::size_t>(x)]; }
  std::int64_t right(int x) const {
    return std::max(edges_[static_cast<std::size_t>(x) + 1], left(x) + 1);
  }
  /// The first span that meets pixel x or a later one; `next`: the first that does not meet the one
  /// before, which mostly ends where x begins, so that nothing is to be searched.
  std::size_t first_in(int x, std::size_t next) const {
    const std::int64_t time = edges_[static_cast<std::size_t>(x)];
    if (next < lane_.size() && lane_.begin(next) < time)
      return lane_.first_ending_after(time, next);
    return lane_.end(next - 1) > time ? next - 1 : next;
  }

  /// The span before the sum reaches into the next pixel, too.
  void step_back(std::size_t span) {
    sum_[static_cast<std::size_t>(lane_.colour(span))] -= lane_.end(span) - lane_.begin(span);
    summed_ = span;
  }

  /// Pixel x, which the spans [first, next) meet.
  void mix(int x, std::size_t first, std::size_t next) {
    const std::int64_t from = left(x), to = right(x);
    SpanLane::Busy busy = busy_of(first, next);
    const auto cut = [&](std::size_t i) {
      const std::int64_t inside =
          std::max<std::int64_t>(0, std::min(lane_.end(i), to) - std::max(lane_.begin(i), from));
      busy[static_cast<std::size_t>(lane_.colour(i))] -= lane_.end(i) - lane_.begin(i) - inside;
    };
    cut(first);
    if (next - 1 > first) cut(next - 1);
    const auto most = std::max_element(busy.begin(), busy.end());
    std::int64_t all = 0;
    for (const std::int64_t of_colour : busy) all += of_colour;
    const auto colour = *most > 0 ? static_cast<std::uint8_t>(most - busy.begin())
                                  : static_cast<std::uint8_t>(lane_.colour(first));
    picture_.pixels[static_cast<std::size_t>(x)] = {colour, byte_of(all, to - from)};
  }

  /// Fills what the last span of pixel x covers beyond it; the next pixel to look at.
  int stretch(int x, std::size_t last) {
    const std::int64_t end = lane_.end(last);
    if (end <= edges_[static_cast<std::size_t>(x) + 1]) return x + 1;
    // edges[behind - 1] < end <= edges[behind]
    const int behind =
        static_cast<int>(std::lower_bound(edges_.begin() + x, edges_.end(), end) - edges_.begin());
    const bool ends_at_an_edge =
        behind <= pixels_ && edges_[static_cast<std::size_t>(behind)] == end;
    const int whole = ends_at_an_edge ? behind : std::min(behind - 1, pixels_);
    const auto colour = static_cast<std::uint8_t>(lane_.colour(last));
    for (int i = x + 1; i < whole; ++i)
      picture_.pixels[static_cast<std::size_t>(i)] = {colour, 255};
    const int right = std::min(behind, pixels_);
    if (right - x >= wide_span_pixels)
      picture_.wide.push_back({.index = last, .left = x, .right = right});
    return std::max(x + 1, whole);
  }

  /// The sum up to the last pixel's end is kept: it is where the next one's begins.
  SpanLane::Busy busy_of(std::size_t first, std::size_t next) {
    if (next - first <= SpanLane::block) return lane_.busy_of(first, next);
    const SpanLane::Busy from = first == summed_ ? sum_ : lane_.busy_before(first);
    summed_ = next;
    sum_ = lane_.busy_before(next);
    SpanLane::Busy busy = sum_;
    for (std::size_t c = 0; c < span_colour_count; ++c) busy[c] -= from[c];
    return busy;
  }

  const SpanLane& lane_;
  std::span<const std::int64_t> edges_;
  LanePicture& picture_;
  int pixels_;
  /// Pixels between what is fetched and what is drawn: waiting for memory is most of the work where
  /// spans are many.
  static constexpr int ahead = 6;
  std::size_t fetched_ = 0;
  std::size_t summed_ = 0;  ///< the span before which `sum_` is
  SpanLane::Busy sum_{};
};

}  // namespace

std::string_view name_of(SpanColour colour) {
  constexpr std::array<std::string_view, span_colour_count> names{
      "gather",  "reduce",    "other collective", "copy", "backward",
      "forward", "optimizer", "compute",          "host", "annotation"};
  return names[static_cast<std::size_t>(colour)];
}

SpanColour colour_of(OperationKind kind, Phase phase) {
  switch (kind) {
    case OperationKind::all_gather:
    case OperationKind::broadcast:
      return SpanColour::gather;
    case OperationKind::reduce_scatter:
    case OperationKind::all_reduce:
    case OperationKind::reduce:
      return SpanColour::reduce;
    case OperationKind::copy:
      return SpanColour::copy;
    case OperationKind::host:
      return SpanColour::host;
    case OperationKind::optimizer:
      return SpanColour::optimizer;
    case OperationKind::compute:
      break;
    default:
      return SpanColour::exchange;
  }
  if (phase == Phase::forward) return SpanColour::forward;
  if (phase == Phase::backward) return SpanColour::backward;
  if (phase == Phase::optimizer || phase == Phase::clip) return SpanColour::optimizer;
  return SpanColour::compute;
}

SpanColour colour_of(SpanClass span_class) {
  constexpr std::array colours{SpanColour::compute, SpanColour::exchange, SpanColour::copy,
                               SpanColour::host, SpanColour::annotation};
  return colours[static_cast<std::size_t>(span_class)];
}

bool is_communication(SpanColour colour) { return colour <= SpanColour::exchange; }

void SpanLane::add(std::int64_t begin, std::int64_t end, std::uint32_t id, SpanColour colour) {
  if (!end_.empty()) begin = std::max(begin, end_.back());
  if (size() % block == 0) {
    Busy sum = before_.empty() ? Busy{} : before_.back();
    for (std::size_t i = size() - (before_.empty() ? 0 : block); i < size(); ++i)
      sum[colour_[i]] += end_[i] - begin_[i];
    before_.push_back(sum);
    block_begin_.push_back(begin);
  }
  begin_.push_back(begin);
  end_.push_back(std::max(begin, end));
  id_.push_back(id);
  colour_.push_back(static_cast<std::uint8_t>(colour));
}

void SpanLane::finish() {
  begin_.shrink_to_fit();
  end_.shrink_to_fit();
  id_.shrink_to_fit();
  colour_.shrink_to_fit();
  before_.shrink_to_fit();
  block_begin_.shrink_to_fit();
}

std::size_t SpanLane::first_ending_after(std::int64_t time, std::size_t from) const {
  const std::size_t next = first_beginning_from(time, from);
  return next > from && end_[next - 1] > time ? next - 1 : next;
}

std::size_t SpanLane::first_beginning_from(std::int64_t time, std::size_t from) const {
  if (from + block >= size() || begin_[from + block] >= time)
    return std::min(size(), gallop(begin_, from, time));
  // Far away: by blocks, whose begins lie close together in memory.
  const std::size_t behind = gallop(block_begin_, from / block + 1, time);
  const auto begin = begin_.begin() + static_cast<std::ptrdiff_t>((behind - 1) * block);
  const auto end = begin_.begin() + static_cast<std::ptrdiff_t>(std::min(size(), behind * block));
  return static_cast<std::size_t>(std::lower_bound(begin, end, time) - begin_.begin());
}

std::optional<std::size_t> SpanLane::at(std::int64_t time) const {
  const std::size_t i = first_ending_after(time);
  if (i == size() || begin_[i] > time) return std::nullopt;
  return i;
}

void SpanLane::fetch_ahead(std::int64_t time, std::size_t& hint) const {
  constexpr std::size_t times_per_line = 64 / sizeof(std::int64_t);
  if (hint >= block_begin_.size()) return;
  hint = gallop(block_begin_, hint, time);
  const std::size_t first = (hint == 0 ? 0 : hint - 1) * block;
  for (std::size_t i = first; i < std::min(size(), first + block); i += times_per_line) {
    __builtin_prefetch(&begin_[i]);
    __builtin_prefetch(&end_[i]);
  }
  __builtin_prefetch(&colour_[first]);
  __builtin_prefetch(&before_[first / block]);
}

SpanLane::Busy SpanLane::busy_before(std::size_t i) const {
  if (empty()) return {};
  const std::size_t whole = std::min(i / block, before_.size() - 1);
  Busy sum = before_[whole];
  for (std::size_t k = whole * block; k < i; ++k) sum[colour_[k]] += end_[k] - begin_[k];
  return sum;
}

SpanLane::Busy SpanLane::busy_of(std::size_t first, std::size_t last) const {
  Busy sum{};
  if (last - first <= 2 * block) {
    for (std::size_t i = first; i < last; ++i) sum[colour_[i]] += end_[i] - begin_[i];
    return sum;
  }
  const Busy until = busy_before(last), from = busy_before(first);
  for (std::size_t c = 0; c < span_colour_count; ++c) sum[c] = until[c] - from[c];
  return sum;
}

std::size_t SpanLane::allocated_bytes() const {
  return (begin_.capacity() + end_.capacity() + block_begin_.capacity()) * sizeof(std::int64_t) +
         id_.capacity() * sizeof(std::uint32_t) + colour_.capacity() +
         before_.capacity() * sizeof(Busy);
}

void draw_lane(const SpanLane& lane, std::span<const std::int64_t> edges, LanePicture& picture) {
  LaneDrawing(lane, edges, picture).draw();
}

std::vector<SpanLane> lay_on_lanes(std::span<const LaneItem> items) {
  std::vector<SpanLane> lanes;
  for (const LaneItem& item : items) {
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const SpanLane& other) {
      return other.end(other.size() - 1) <= item.begin;
    });
    if (lane == lanes.end() && lanes.size() < most_lanes) lane = lanes.insert(lane, SpanLane());
    if (lane == lanes.end()) --lane;
    lane->add(item.begin, item.end, item.id, item.colour);
  }
  for (SpanLane& lane : lanes) lane.finish();
  return lanes;
}

}  // namespace shardscope::gui
