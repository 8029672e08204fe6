#include "sim/validate/published_row.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/base/utf8.h"
#include "sim/validate/published_scripts.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

struct TextColumn {
  std::string_view name;
  std::string PublishedRow::*field;
};
constexpr std::array<TextColumn, 10> text_columns{{{"source", &PublishedRow::source},
                                                   {"model", &PublishedRow::model},
                                                   {"gpu", &PublishedRow::gpu},
                                                   {"strategy", &PublishedRow::strategy},
                                                   {"precision", &PublishedRow::precision},
                                                   {"act_ckpt", &PublishedRow::checkpointing},
                                                   {"offload", &PublishedRow::offload},
                                                   {"compile", &PublishedRow::compile},
                                                   {"attn", &PublishedRow::attention},
                                                   {"notes", &PublishedRow::notes}}};

/// What is beyond `most` is no run of our time, and would only cost memory.
struct CountColumn {
  std::string_view name;
  std::optional<std::int64_t> PublishedRow::*field;
  std::int64_t most;
};
constexpr std::array<CountColumn, 15> count_columns{
    {{"hidden", &PublishedRow::hidden, 1 << 20},
     {"layers", &PublishedRow::layers, 1 << 10},
     {"heads", &PublishedRow::heads, 1 << 14},
     {"kv_heads", &PublishedRow::kv_heads, 1 << 14},
     {"ffn", &PublishedRow::ffn, 1 << 22},
     {"vocab", &PublishedRow::vocabulary, 1 << 24},
     {"seq", &PublishedRow::seq, 1 << 24},
     {"gpus", &PublishedRow::gpus, 1 << 20},
     {"gpus_per_node", &PublishedRow::gpus_per_node, 1 << 16},
     {"tp", &PublishedRow::tensor_parallel, 1 << 20},
     {"pp", &PublishedRow::pipeline_parallel, 1 << 20},
     {"dp_shard", &PublishedRow::shards, 1 << 20},
     {"micro_batch", &PublishedRow::micro_batch, 1 << 20},
     {"global_batch", &PublishedRow::global_batch, 1 << 28},
     {"grad_accum", &PublishedRow::accumulate, 1 << 20}}};

struct RateColumn {
  std::string_view name;
  std::optional<double> PublishedRow::*field;
};
constexpr std::array<RateColumn, 4> rate_columns{
    {{"params_b", &PublishedRow::parameters_billions},
     {"measured_tokens_per_s_per_gpu", &PublishedRow::tokens_per_s},
     {"measured_tflops_per_gpu", &PublishedRow::tflops},
     {"measured_step_s", &PublishedRow::step_s}}};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// One row as its fields are taken.
class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  PublishedRow read() {
    result_.number = static_cast<int>(row_) + 1;
    for (const TextColumn& column : text_columns)
      result_.*column.field = std::string(text_of(column.name));
    result_.network_notes = result_.notes;
    result_.experts = stated_experts(text_of("ffn"));
    for (const CountColumn& column : count_columns) take(column);
    for (const RateColumn& column : rate_columns) take(column);
    take_length_from_notes();
    fill_known_mixture(result_);
    fill_launch_script(result_);
    return std::move(result_);
  }

 private:
  std::string_view text_of(std::string_view name) const {
    const auto column = table_.column(name);
    return column ? table_.field(row_, *column) : std::string_view();
  }

  void refuse(std::string_view name, std::string_view expected, std::string_view text) {
    if (result_.unreadable.empty())
      result_.unreadable = fmt::format("{}: expected {}, got \"{}\"", name, expected, shown(text));
  }

  void take(const CountColumn& column) {
    const std::string_view text = text_of(column.name);
    const bool says_experts = result_.experts && column.name == "ffn";
    if (text.empty() || says_experts) return;
    const auto value = number_of(text);
    if (!value || *value < 0 || *value > static_cast<double>(column.most) ||
        *value != std::floor(*value))
      return refuse(column.name, fmt::format("a whole number up to {}", column.most), text);
    // A zero says that there is none, as a blank does.
    if (*value > 0) result_.*column.field = static_cast<std::int64_t>(*value);
  }

  void take(const RateColumn& column) {
    const std::string_view text = text_of(column.name);
    if (text.empty()) return;
    constexpr double most = 1e12;
    const auto value = number_of(text);
    if (!value || *value < 0 || *value > most) return refuse(column.name, "a number", text);
    if (*value > 0) result_.*column.field = *value;
  }

  /// "seq_len not stated in the table (7B_sft.py default 2048)".
  void take_length_from_notes() {
    if (result_.seq || !has_word(result_.notes, "seq")) return;
    result_.seq = number_after(result_.notes, "default ");
    result_.seq_in_notes = result_.seq.has_value();
  }

  const CsvTable& table_;
  std::size_t row_;
  PublishedRow result_;
};

}  // namespace

std::string repository_of(const PublishedRow& row) {
  return row.source.substr(0, row.source.find(' '));
}

std::vector<PublishedRow> published_rows(const CsvTable& table) {
  for (const std::string_view needed : {"hidden", "layers", "gpu"})
    if (!table.column(needed))
      throw Error({.where = table.file_name(),
                   .what = fmt::format("the table has no column \"{}\"", needed),
                   .way_out = "docs/cli.md lists the columns"});
  std::vector<PublishedRow> rows;
  rows.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) rows.push_back(RowReader(table, row).read());
  return rows;
}

}  // namespace shardscope
