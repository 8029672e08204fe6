#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "traces/analysis.h"
#include "traces/axis.h"
#include "traces/figure.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double width = 1200, plot_left = 200, plot_right = 1176, top = 140;
constexpr double lane_height = 30, lane_gap = 3, stream_gap = 16, ribbon_height = 22;
constexpr double min_pixels = 0.6;  // narrower spans of one colour are drawn as one
constexpr std::string_view exposed_hatch = "exposed";

/// One trace's steady step.
struct Side {
  const Trace* trace = nullptr;
  std::string label;  ///< "predicted", "profiled"
  TimeWindow window;
  IntervalUnion compute, communication, copies;
};

IntervalUnion spans_of(const Trace& trace, SpanClass span_class, TimeWindow window) {
  std::vector<TimeWindow> windows;
  for (const Span& span : trace.spans) {
    if (span.span_class == span_class && is_on_device(trace, span)) {
      windows.push_back(clipped({span.start, span.end()}, window));
    }
  }
  return IntervalUnion(std::move(windows));
}

Side side_of(const Trace& trace, std::string_view label) {
  const std::vector<StepWindow> steps = step_windows(trace);
  Side side{
      .trace = &trace, .label = std::string(label), .window = steps[steady_step(steps)].window};
  side.compute = spans_of(trace, SpanClass::compute, side.window);
  side.communication = spans_of(trace, SpanClass::communication, side.window);
  side.copies = spans_of(trace, SpanClass::copy, side.window);
  return side;
}

/// The rows: every stream that has device spans in one of the steps, in the order of `Stream`.
std::vector<Stream> streams_in_use(const std::vector<Side>& sides) {
  std::array<bool, stream_count> used{};
  for (const Side& side : sides) {
    for (const Span& span : side.trace->spans) {
      const bool is_inside = span.start < side.window.end && span.end() > side.window.begin;
      if (is_inside && is_on_device(*side.trace, span)) {
        used[static_cast<std::size_t>(side.trace->tracks[span.track].stream)] = true;
      }
    }
  }
  std::vector<Stream> result;
  for (int i = 0; i < stream_count; ++i) {
    if (used[static_cast<std::size_t>(i)]) result.push_back(static_cast<Stream>(i));
  }
  return result;
}

std::string_view colour_of(const Span& span, const OperationFacts* facts) {
  if (facts != nullptr) return palette::of(facts->kind, facts->phase);
  if (span.span_class == SpanClass::communication) return palette::vermilion;
  return span.span_class == SpanClass::copy ? palette::yellow : palette::grey;
}

bool is_dark(std::string_view colour) {
  return colour == palette::blue || colour == palette::vermilion || colour == palette::green;
}

/// A box of a lane, in pixels.
struct Box {
  double from;
  double to;
  std::string_view colour;
  std::string_view name;
  std::string_view short_name;  ///< without its unit's
  bool is_exposed = false;      ///< in part at least: hatched, so not a place for letters
};

/// The longest name that the box has room for; better none than a stump.
std::string label_of(const Box& box, double size) {
  constexpr double margin = 8;
  constexpr std::size_t shortest_stump = 12;  // bytes, the ellipsis among them
  const double room = box.to - box.from - margin;
  if (text_width(box.name, size) <= room) return std::string(box.name);
  const std::string label = fitted(box.short_name, size, room);
  return label == box.short_name || label.size() >= shortest_stump ? label : std::string();
}

/// "h.0.mlp.forward" of unit "h.0" is "mlp.forward".
std::string_view short_name(std::string_view name, const OperationFacts* facts) {
  if (facts == nullptr || facts->unit.empty()) return name;
  const bool has_prefix = name.size() > facts->unit.size() + 1 && name.starts_with(facts->unit) &&
                          name[facts->unit.size()] == '.';
  return has_prefix ? name.substr(facts->unit.size() + 1) : name;
}

class StreamsFigure {
 public:
  StreamsFigure(std::vector<Side> sides, std::string_view title)
      : sides_(std::move(sides)), streams_(streams_in_use(sides_)), svg_(width, height()) {
    Duration longest;
    for (const Side& side : sides_) longest = std::max(longest, side.window.length());
    time_ = time_axis(longest, plot_left, plot_right, 8);
    svg_.hatch(exposed_hatch, palette::ink);
    svg_.text({24, 38}, title, {.size = 20, .is_bold = true});
    svg_.text({24, 62}, subtitle(), {.size = 14, .colour = std::string(palette::faint_ink)});
  }

  std::string draw() {
    draw_legend();
    draw_grid();
    double y = top;
    for (const Stream stream : streams_) y = draw_stream(stream, y);
    y += 14;
    svg_.text({24, y}, "Where the step's time goes", {.size = 14, .is_bold = true});
    y += 14;
    for (const Side& side : sides_) y = draw_ribbon(side, y);
    return svg_.str();
  }

 private:
  double stream_height() const {
    return static_cast<double>(sides_.size()) * (lane_height + lane_gap) + stream_gap;
  }
  double streams_bottom() const {
    return top + stream_height() * static_cast<double>(streams_.size()) - stream_gap;
  }
  double ribbon_row() const { return ribbon_height + 30; }
  double height() const {
    return streams_bottom() + stream_gap + 28 + ribbon_row() * static_cast<double>(sides_.size()) +
           50;
  }
  std::string subtitle() const {
    if (sides_.size() == 2)
      return "Streams of one step: each predicted lane stands above its profiled one";
    return fmt::format("Streams of one step, {}", sides_.front().label);
  }
  double x_of(const Side& side, Duration time) const {
    return time_.at((time - side.window.begin).ns);
  }

  void draw_legend() {
    double x = 24;
    const double y = 84;
    const auto entry = [&](std::string_view colour, std::string_view label) {
      svg_.rectangle({x, y, 15, 15}, {.fill = std::string(colour)}, 2);
      svg_.text({x + 22, y + 12.5}, label);
      x += 22 + text_width(label, 13) + 22;
    };
    entry(palette::sky, "forward");
    entry(palette::blue, "backward");
    entry(palette::green, "optimizer");
    entry(palette::grey, "other compute");
    entry(palette::orange, "all-gather");
    entry(palette::vermilion, "reduction");
    entry(palette::yellow, "copy");
    svg_.rectangle({x, y, 24, 15}, {.fill = std::string(palette::orange)}, 2);
    svg_.rectangle({x, y, 24, 15},
                   {.fill = fmt::format("url(#{})", exposed_hatch), .opacity = 0.75}, 2);
    svg_.text({x + 31, y + 12.5}, "exposed");
  }

  void draw_grid() {
    const double bottom = height() - 50;
    for (const Tick& tick : time_.ticks) {
      const double x = time_.at(tick.value);
      svg_.line({x, top - 10}, {x, bottom}, {.stroke = std::string(palette::grid)});
      svg_.text({x, bottom + 18}, tick.label,
                {.colour = std::string(palette::faint_ink), .anchor = Anchor::middle});
    }
    svg_.text({(plot_left + plot_right) / 2, bottom + 40},
              fmt::format("time since the step began, {}", time_.unit), {.anchor = Anchor::middle});
  }

  double draw_stream(Stream stream, double y) {
    const double lanes = static_cast<double>(sides_.size()) * (lane_height + lane_gap) - lane_gap;
    std::string label(name_of(stream));
    std::replace(label.begin(), label.end(), '_', ' ');
    svg_.text({24, y + lanes / 2 + 5}, label, {.size = 14, .is_bold = true});
    for (const Side& side : sides_) {
      svg_.text({plot_left - 10, y + lane_height / 2 + 4}, side.label,
                {.size = 11.5, .colour = std::string(palette::faint_ink), .anchor = Anchor::end});
      draw_lane(side, stream, y);
      y += lane_height + lane_gap;
    }
    return y + stream_gap;
  }

  void draw_lane(const Side& side, Stream stream, double y) {
    svg_.rectangle({plot_left, y, x_of(side, side.window.end) - plot_left, lane_height},
                   {.fill = std::string(palette::lane)});
    for (const Box& box : boxes_of(side, stream)) draw_box(box, y);
    draw_exposed(side, stream, y);
  }

  void draw_box(const Box& box, double y) {
    const double box_width = std::max(min_pixels, box.to - box.from);
    const bool has_border = box_width > 4;
    svg_.rectangle({box.from, y, box_width, lane_height},
                   {.fill = std::string(box.colour),
                    .stroke = has_border ? "#ffffff" : "",
                    .stroke_width = 0.7},
                   0, box.name);
    const std::string label = box.is_exposed ? std::string() : label_of(box, 11);
    if (label.empty()) return;
    const std::string colour = is_dark(box.colour) ? "#ffffff" : std::string(palette::ink);
    svg_.text({box.from + 4, y + lane_height / 2 + 4}, label, {.size = 11, .colour = colour});
  }

  std::vector<Box> boxes_of(const Side& side, Stream stream) const {
    const Trace& trace = *side.trace;
    const FactsTable facts(trace);
    std::vector<Box> boxes;
    for (const Span& span : sorted_spans(side, stream)) {
      const TimeWindow part = clipped({span.start, span.end()}, side.window);
      if (part.length() <= Duration{}) continue;
      const OperationFacts* operation = facts.find(span.operation);
      const Box box{.from = x_of(side, part.begin),
                    .to = x_of(side, part.end),
                    .colour = colour_of(span, operation),
                    .name = trace.name(span),
                    .short_name = short_name(trace.name(span), operation),
                    .is_exposed = span.span_class == SpanClass::communication &&
                                  side.compute.covered(part) < part.length()};
      const bool joins_last = !boxes.empty() && boxes.back().colour == box.colour &&
                              box.from - boxes.back().to < min_pixels &&
                              boxes.back().to - boxes.back().from < min_pixels &&
                              box.to - box.from < min_pixels;
      if (joins_last) {
        boxes.back().to = std::max(boxes.back().to, box.to);
      } else {
        boxes.push_back(box);
      }
    }
    return boxes;
  }

  static std::vector<Span> sorted_spans(const Side& side, Stream stream) {
    std::vector<Span> spans;
    for (const Span& span : side.trace->spans) {
      if (is_on_device(*side.trace, span) && side.trace->tracks[span.track].stream == stream)
        spans.push_back(span);
    }
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& a, const Span& b) { return a.start < b.start; });
    return spans;
  }

  /// Hatches what runs of this stream's collectives while nothing computes.
  void draw_exposed(const Side& side, Stream stream, double y) {
    std::vector<TimeWindow> windows;
    for (const Span& span : sorted_spans(side, stream)) {
      if (span.span_class == SpanClass::communication)
        windows.push_back(clipped({span.start, span.end()}, side.window));
    }
    for (const TimeWindow& part : difference(IntervalUnion(std::move(windows)), side.compute)) {
      const double from = x_of(side, part.begin), to = x_of(side, part.end);
      if (to - from < min_pixels) continue;
      svg_.rectangle({from, y, to - from, lane_height},
                     {.fill = fmt::format("url(#{})", exposed_hatch), .opacity = 0.75});
    }
  }

  struct Portion {
    std::string_view label;
    std::string colour;
    bool is_hatched = false;
    std::vector<TimeWindow> parts;
  };

  /// The step cut into compute alone, compute over communication, exposed communication, exposed
  /// copies; the rest is idle.
  static std::vector<Portion> portions(const Side& side) {
    const IntervalUnion alone(difference(side.compute, side.communication));
    std::vector<TimeWindow> busy = side.compute.windows();
    busy.insert(busy.end(), side.communication.windows().begin(),
                side.communication.windows().end());
    return {{"compute", std::string(palette::slate), false, alone.windows()},
            {"overlapped", std::string(palette::purple), false, difference(side.compute, alone)},
            {"exposed communication", std::string(palette::orange), true,
             difference(side.communication, side.compute)},
            {"exposed copy", std::string(palette::yellow), false,
             difference(side.copies, IntervalUnion(std::move(busy)))}};
  }

  double draw_ribbon(const Side& side, double y) {
    svg_.text({plot_left - 10, y + ribbon_height / 2 + 4}, side.label,
              {.size = 11.5, .colour = std::string(palette::faint_ink), .anchor = Anchor::end});
    const double right = x_of(side, side.window.end);
    svg_.rectangle({plot_left, y, right - plot_left, ribbon_height},
                   {.fill = "#ffffff", .stroke = std::string(palette::grey)});
    Portion idle{.label = "idle", .colour = "#ffffff"};
    Duration busy;
    Point legend{plot_left, y + ribbon_height + 15};
    for (const Portion& portion : portions(side)) {
      const Duration length = IntervalUnion(portion.parts).length();
      busy += length;
      draw_parts(side, portion, y);
      const bool is_rare = portion.label == "exposed copy";
      if (length.ns > 0 || !is_rare) legend.x = draw_share(side, portion, length, legend);
    }
    draw_share(side, idle, side.window.length() - busy, legend);
    svg_.text({24, y + ribbon_height / 2 + 4}, rounded_text(side.window.length()),
              {.is_bold = true});
    return y + ribbon_row();
  }

  /// Neighbouring parts that share a pixel are joined, so that a step of many operations stays a
  /// small picture.
  void draw_parts(const Side& side, const Portion& portion, double y) {
    const double pixel_ns = static_cast<double>(time_.end) / (plot_right - plot_left);
    std::vector<TimeWindow> drawn;
    for (const TimeWindow& part : portion.parts) {
      const bool joins = !drawn.empty() &&
                         static_cast<double>((part.begin - drawn.back().end).ns) < 0.3 * pixel_ns;
      if (joins) {
        drawn.back().end = part.end;
      } else {
        drawn.push_back(part);
      }
    }
    for (const TimeWindow& part : drawn) {
      const double from = x_of(side, part.begin);
      paint({from, y, std::max(0.3, x_of(side, part.end) - from), ribbon_height}, portion);
    }
  }

  void paint(Rectangle at, const Portion& portion) {
    svg_.rectangle(at, {.fill = portion.colour});
    if (portion.is_hatched)
      svg_.rectangle(at, {.fill = fmt::format("url(#{})", exposed_hatch), .opacity = 0.75});
  }

  double draw_share(const Side& side, const Portion& portion, Duration length, Point at) {
    const double share =
        side.window.length().ns > 0 ? 100.0 * length.seconds() / side.window.length().seconds() : 0;
    const std::string text =
        fmt::format("{} {} ({:.1f}%)", portion.label, rounded_text(length), share);
    const Rectangle swatch{at.x, at.y - 10, 12, 12};
    paint(swatch, portion);
    svg_.rectangle(swatch, {.stroke = std::string(palette::grey), .stroke_width = 0.7});
    svg_.text({at.x + 18, at.y}, text, {.size = 12});
    return at.x + 18 + text_width(text, 12) + 20;
  }

  std::vector<Side> sides_;
  std::vector<Stream> streams_;
  Svg svg_;
  Axis time_;
};

}  // namespace

std::string streams_figure(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                           std::string_view title) {
  std::vector<Side> sides;
  if (predicted.value != nullptr) sides.push_back(side_of(*predicted.value, "predicted"));
  if (profiled.value != nullptr) sides.push_back(side_of(*profiled.value, "profiled"));
  if (sides.empty())
    throw Error({.where = {}, .what = "a picture of streams needs a trace", .way_out = {}});
  return StreamsFigure(std::move(sides), title).draw();
}

}  // namespace shardscope
