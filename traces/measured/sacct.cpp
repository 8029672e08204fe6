#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "traces/measured/metric_formats.h"
#include "traces/measured/text_rows.h"

namespace shardscope {
namespace {

/// Columns of a table whose second line is of dashes: where each begins and ends.
struct Span {
  std::size_t begin = 0, end = 0;
};

std::vector<Span> spans_of(std::string_view dashes) {
  std::vector<Span> spans;
  for (std::size_t at = dashes.find('-'); at != dashes.npos;) {
    const std::size_t end = std::min(dashes.find_first_not_of('-', at), dashes.size());
    spans.push_back({at, end});
    at = dashes.find('-', end);
  }
  return spans;
}

std::vector<std::string_view> cells(std::string_view line, const std::vector<Span>& spans) {
  std::vector<std::string_view> fields;
  for (const Span& span : spans)
    fields.push_back(span.begin >= line.size()
                         ? std::string_view()
                         : trimmed(line.substr(span.begin, span.end - span.begin)));
  return fields;
}

/// "40536M", "1.5G", "123456K", "512": bytes. Slurm's units are powers of 1024.
std::optional<double> slurm_bytes(std::string_view text) {
  constexpr std::string_view units = "KMGTP";
  if (text.empty()) return std::nullopt;
  const std::size_t unit = units.find(text.back());
  if (unit != units.npos) text.remove_suffix(1);
  const auto value = decimal(text);
  if (!value) return std::nullopt;
  return *value * (unit == units.npos ? 1.0 : std::pow(1024.0, static_cast<double>(unit + 1)));
}

/// "1-02:03:04", "02:03:04", "03:04.567": seconds.
std::optional<double> slurm_seconds(std::string_view text) {
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != text.npos) {
    const auto value = decimal(text.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    text.remove_prefix(dash + 1);
  }
  double seconds = 0;
  for (const std::string_view part : fields_between(text, ':')) {
    const auto value = decimal(part);
    if (!value) return std::nullopt;
    seconds = seconds * 60 + *value;
  }
  return days * 86400 + seconds;
}

/// "gres/gpumem=40536M" in a list of trackable resources.
std::optional<std::string_view> resource(std::string_view list, std::string_view name) {
  for (const std::string_view part : fields_between(list, ',')) {
    const std::size_t equals = part.find('=');
    if (equals != part.npos && part.substr(0, equals) == name) return part.substr(equals + 1);
  }
  return std::nullopt;
}

/// One row, of a job or of one of its steps.
class Row {
 public:
  Row(const std::vector<std::string_view>& columns, const std::vector<std::string_view>& fields)
      : columns_(columns), fields_(fields) {}

  std::string_view at(std::string_view column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    const auto place = static_cast<std::size_t>(found - columns_.begin());
    return place < fields_.size() ? fields_[place] : std::string_view();
  }

  bool add_to(MetricCollector& collector) const {
    const std::string_view job = at("JobID");
    const auto add = [&](std::string_view name, std::optional<double> value) {
      return !value || collector.add(fmt::format("{}.{}", job, name), {.value = *value});
    };
    const auto gpu_memory = resource(at("TRESUsageInMax"), "gres/gpumem");
    return add("Elapsed [s]", slurm_seconds(at("Elapsed"))) &&
           add("MaxRSS [bytes]", slurm_bytes(at("MaxRSS"))) &&
           add("gres/gpumem [bytes]", gpu_memory ? slurm_bytes(*gpu_memory) : std::nullopt);
  }

 private:
  const std::vector<std::string_view>& columns_;
  const std::vector<std::string_view>& fields_;
};

}  // namespace

bool is_sacct(std::string_view first_bytes) {
  const auto line = LineReader(first_bytes).next();
  return line && trimmed(*line).starts_with("JobID") && line->find(',') == line->npos;
}

MetricLog read_sacct(std::string_view text, const std::string& file) {
  LineReader lines(text);
  const std::string_view headline = lines.next().value_or("");
  const bool has_bars = headline.find('|') != headline.npos;
  std::vector<Span> spans;
  if (!has_bars) spans = spans_of(lines.next().value_or(""));
  const auto fields_of = [&](std::string_view line) {
    return has_bars ? fields_between(line, '|') : cells(line, spans);
  };
  const std::vector<std::string_view> columns = fields_of(headline);
  MetricCollector collector;
  for (auto line = lines.next(); line; line = lines.next()) {
    if (trimmed(*line).empty()) continue;
    const std::vector<std::string_view> fields = fields_of(*line);
    if (!Row(columns, fields).add_to(collector)) break;
  }
  return {.file = file, .format = MetricFormat::slurm, .series = collector.take(), .notes = {}};
}

}  // namespace shardscope
