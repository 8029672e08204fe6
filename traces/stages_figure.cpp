#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "traces/analysis.h"
#include "traces/axis.h"
#include "traces/figure.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double width = 1200, plot_left = 150, plot_right = 1060, top = 124;
constexpr double row_height = 30, row_gap = 3, rank_gap = 12;
constexpr double min_pixels = 0.6;  // narrower boxes of one colour are drawn as one
constexpr std::string_view bubble_hatch = "bubble";

/// Neighbouring operations of one micro-batch's forward or backward, or of the update.
struct Chunk {
  Phase phase = Phase::forward;
  int micro_batch = 0;
  TimeWindow window;  ///< since the step began on the first of all ranks
};

struct Row {
  int rank = 0;  ///< of the pipeline
  std::string_view side;
  std::vector<Chunk> chunks;
  std::vector<TimeWindow> bubbles;
  double bubble_share = 0;  ///< of the step
};

/// The step of one side, the same of all of its ranks.
struct SharedStep {
  int step = 0;
  Duration begin, end;  ///< since the first trace's base
};

Duration shift_of(const Trace& trace, const Trace& first) {
  return Duration{trace.base_ns - first.base_ns};
}

/// From where the first rank begins to where the last one ends.
SharedStep shared_step(const std::vector<const Trace*>& traces) {
  const std::vector<StepWindow> of_first = step_windows(*traces.front());
  const StepWindow& steady = of_first[steady_step(of_first)];
  SharedStep shared{.step = steady.step, .begin = steady.window.begin, .end = steady.window.end};
  for (const Trace* trace : traces) {
    const Duration shift = shift_of(*trace, *traces.front());
    for (const StepWindow& step : step_windows(*trace)) {
      if (step.step != shared.step) continue;
      shared.begin = std::min(shared.begin, step.window.begin + shift);
      shared.end = std::max(shared.end, step.window.end + shift);
    }
  }
  return shared;
}

bool is_update(Phase phase) { return phase == Phase::optimizer || phase == Phase::clip; }

/// Phases that are drawn: all that belongs to the update is one.
std::optional<Phase> drawn_phase(const OperationFacts& facts) {
  if (facts.phase == Phase::forward || facts.phase == Phase::backward) return facts.phase;
  return is_update(facts.phase) ? std::optional(Phase::optimizer) : std::nullopt;
}

class RowMaker {
 public:
  RowMaker(const Trace& trace, const Trace& first, const SharedStep& step)
      : trace_(trace), facts_(trace), shift_(shift_of(trace, first) - step.begin), step_(step) {}

  Row row(int rank, std::string_view side) {
    std::vector<Span> spans;
    for (const Span& span : trace_.spans)
      if (is_on_device(trace_, span)) spans.push_back(span);
    std::ranges::stable_sort(spans, {}, &Span::start);
    for (const Span& span : spans) add(span);
    Row row{.rank = rank, .side = side, .chunks = std::move(chunks_)};
    const TimeWindow whole{{}, step_.end - step_.begin};
    const IntervalUnion busy(std::move(busy_));
    row.bubbles = difference(IntervalUnion({whole}), busy);
    row.bubble_share =
        whole.end.ns > 0 ? IntervalUnion(row.bubbles).length().seconds() / whole.end.seconds() : 0;
    return row;
  }

 private:
  void add(const Span& span) {
    const TimeWindow window =
        clipped({span.start + shift_, span.end() + shift_}, {{}, step_.end - step_.begin});
    if (window.length() <= Duration{}) return;
    if (span.span_class != SpanClass::compute || span.step != step_.step) return;
    busy_.push_back(window);
    const OperationFacts* facts = facts_.find(span.operation);
    if (facts == nullptr) return;
    const std::optional<Phase> phase = drawn_phase(*facts);
    if (!phase) return;
    const int micro_batch = *phase == Phase::optimizer ? 0 : facts->micro_batch;
    const bool goes_on = !chunks_.empty() && chunks_.back().phase == *phase &&
                         chunks_.back().micro_batch == micro_batch &&
                         window.begin - chunks_.back().window.end <= longest_gap();
    if (goes_on)
      chunks_.back().window.end = std::max(chunks_.back().window.end, window.end);
    else
      chunks_.push_back({.phase = *phase, .micro_batch = micro_batch, .window = window});
  }

  /// A chunk that waits for longer than a pixel or two is drawn in parts.
  Duration longest_gap() const {
    constexpr std::int64_t parts = 500;
    return Duration{(step_.end - step_.begin).ns / parts};
  }

  const Trace& trace_;
  const FactsTable facts_;
  const Duration shift_;
  const SharedStep& step_;
  std::vector<Chunk> chunks_;
  std::vector<TimeWindow> busy_;
};

std::vector<Row> rows_of(const std::vector<const Trace*>& traces, std::string_view side,
                         Duration& longest) {
  std::vector<Row> rows;
  if (traces.empty()) return rows;
  const SharedStep step = shared_step(traces);
  longest = std::max(longest, step.end - step.begin);
  for (std::size_t rank = 0; rank < traces.size(); ++rank)
    rows.push_back(
        RowMaker(*traces[rank], *traces.front(), step).row(static_cast<int>(rank), side));
  return rows;
}

std::string_view colour_of(Phase phase) {
  if (phase == Phase::forward) return palette::sky;
  return phase == Phase::backward ? palette::blue : palette::green;
}

double mean_bubble(const std::vector<Row>& rows) {
  double sum = 0;
  for (const Row& row : rows) sum += row.bubble_share;
  return sum / static_cast<double>(rows.size());
}

std::string subtitle(const std::vector<Row>& predicted, const std::vector<Row>& profiled) {
  std::string text = "Micro-batches over the ranks of the pipeline, one step: nothing computes in";
  if (!predicted.empty()) text += fmt::format(" {:.1f}% predicted", 100 * mean_bubble(predicted));
  if (!predicted.empty() && !profiled.empty()) text += ",";
  if (!profiled.empty()) text += fmt::format(" {:.1f}% profiled", 100 * mean_bubble(profiled));
  return text;
}

class StagesPicture {
 public:
  StagesPicture(const std::vector<Row>& predicted, const std::vector<Row>& profiled,
                Duration longest, std::string_view title)
      : ranks_(std::max(predicted.size(), profiled.size())),
        sides_((predicted.empty() ? 0 : 1) + (profiled.empty() ? 0 : 1)),
        svg_(width, bottom() + 58),
        time_(time_axis(longest, plot_left, plot_right, 8)) {
    svg_.hatch(bubble_hatch, palette::grey);
    svg_.text({24, 38}, title, {.size = 20, .is_bold = true});
    svg_.text({24, 62}, subtitle(predicted, profiled),
              {.size = 14, .colour = std::string(palette::faint_ink)});
    draw_legend();
    draw_grid();
    double y = top;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      svg_.text({24, y + height_of_rank() / 2 + 2}, fmt::format("rank {}", rank),
                {.size = 14, .is_bold = true});
      for (const std::vector<Row>* rows : {&predicted, &profiled}) {
        if (rank < rows->size()) draw((*rows)[rank], y);
        if (!rows->empty()) y += row_height + row_gap;
      }
      y += rank_gap;
    }
  }

  std::string str() const { return svg_.str(); }

 private:
  double height_of_rank() const {
    return static_cast<double>(sides_) * (row_height + row_gap) - row_gap;
  }
  double bottom() const {
    return top + static_cast<double>(ranks_) * (height_of_rank() + row_gap + rank_gap);
  }

  void draw_legend() {
    double x = 24;
    const double y = 84;
    const auto entry = [&](std::string_view fill, std::string_view label) {
      svg_.rectangle({x, y, 15, 15}, {.fill = std::string(fill)}, 2);
      svg_.text({x + 22, y + 12.5}, label);
      x += 22 + text_width(label, 13) + 22;
    };
    entry(palette::sky, "forward of a micro-batch");
    entry(palette::blue, "backward");
    entry(palette::green, "optimizer");
    entry(fmt::format("url(#{})", bubble_hatch), "nothing computes: bubble, exposed communication");
  }

  void draw_grid() {
    for (const Tick& tick : time_.ticks) {
      const double x = time_.at(tick.value);
      svg_.line({x, top - 8}, {x, bottom()}, {.stroke = std::string(palette::grid)});
      svg_.text({x, bottom() + 18}, tick.label,
                {.colour = std::string(palette::faint_ink), .anchor = Anchor::middle});
    }
    svg_.text({(plot_left + plot_right) / 2, bottom() + 40},
              fmt::format("time since the step began, {}", time_.unit), {.anchor = Anchor::middle});
  }

  void draw(const Row& row, double y) {
    if (sides_ > 1)
      svg_.text({plot_left - 8, y + row_height / 2 + 4}, row.side,
                {.size = 11.5, .colour = std::string(palette::faint_ink), .anchor = Anchor::end});
    for (const TimeWindow& bubble : row.bubbles) draw_bubble(bubble, y);
    double drawn_to = 0;
    for (const Chunk& chunk : row.chunks) drawn_to = draw_chunk(chunk, y, drawn_to);
    svg_.text({plot_right + 10, y + row_height / 2 + 4},
              fmt::format("no compute {:.1f}%", 100 * row.bubble_share), {.size = 12});
  }

  void draw_bubble(const TimeWindow& bubble, double y) {
    const double from = time_.at(bubble.begin.ns), to = time_.at(bubble.end.ns);
    if (to - from < min_pixels) return;
    svg_.rectangle({from, y, to - from, row_height},
                   {.fill = fmt::format("url(#{})", bubble_hatch), .opacity = 0.75}, 0,
                   "nothing computes");
  }

  /// Where it ends; what is narrower than a pixel and lies on what is drawn is left out.
  double draw_chunk(const Chunk& chunk, double y, double drawn_to) {
    const double from = time_.at(chunk.window.begin.ns);
    const double to = std::max(from + min_pixels, time_.at(chunk.window.end.ns));
    if (to - drawn_to < min_pixels) return drawn_to;
    const bool has_border = to - from > 4;
    const bool is_update = chunk.phase == Phase::optimizer;
    const std::string number = is_update ? std::string() : fmt::format("{}", chunk.micro_batch);
    svg_.rectangle({from, y, to - from, row_height},
                   {.fill = std::string(colour_of(chunk.phase)),
                    .stroke = has_border ? "#ffffff" : "",
                    .stroke_width = 0.7},
                   0, is_update ? "optimizer" : fmt::format("{} {}", name_of(chunk.phase), number));
    constexpr double size = 11, margin = 2;
    if (!number.empty() && text_width(number, size) + margin <= to - from) {
      const std::string colour =
          chunk.phase == Phase::forward ? std::string(palette::ink) : "#ffffff";
      svg_.text({(from + to) / 2, y + row_height / 2 + 4}, number,
                {.size = size, .colour = colour, .anchor = Anchor::middle});
    }
    return to;
  }

  std::size_t ranks_;
  int sides_;
  Svg svg_;
  Axis time_;
};

}  // namespace

std::string stages_figure(const StageTraces& traces, std::string_view title) {
  Duration longest;
  const std::vector<Row> predicted = rows_of(traces.predicted, "predicted", longest);
  const std::vector<Row> profiled = rows_of(traces.profiled, "profiled", longest);
  if (predicted.empty() && profiled.empty())
    throw Error({.where = "stages.svg", .what = "there is no trace to draw"});
  return StagesPicture(predicted, profiled, longest, title).str();
}

}  // namespace shardscope
