#include "cli/lengths_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/grouped.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

using planner::LengthFigures;
using planner::SequenceLengths;
using Json = nlohmann::ordered_json;

/// "mean=512,max=4096"; none: a file.
std::optional<SequenceLengths> lengths_in_words(std::string_view text) {
  constexpr std::string_view mean_key = "mean=", max_key = ",max=";
  const std::size_t comma = text.find(max_key);
  if (!text.starts_with(mean_key) || comma == std::string_view::npos) return std::nullopt;
  const std::string_view first = text.substr(mean_key.size(), comma - mean_key.size());
  const std::string_view second = text.substr(comma + max_key.size());
  double mean = 0;
  std::int64_t longest = 0;
  const auto [mean_end, mean_error] =
      std::from_chars(first.data(), first.data() + first.size(), mean);
  const auto [end, error] = std::from_chars(second.data(), second.data() + second.size(), longest);
  if (mean_error != std::errc() || mean_end != first.data() + first.size() ||
      error != std::errc() || end != second.data() + second.size())
    throw Error({.where = "--lengths",
                 .what = fmt::format("\"{}\" has no numbers", text),
                 .way_out = "give a file, or as in mean=512,max=4096"});
  return planner::lengths_with(mean, longest);
}

std::string percent(double share) { return fmt::format("{:.1f}%", share * 100); }

std::int64_t real(double tokens_per_s, double padding) {
  return static_cast<std::int64_t>(tokens_per_s * (1 - padding));
}

std::string run_memory_text(const planner::LengthsMemory& memory) {
  const std::string run =
      fmt::format("          run of {} micro-batch{}, each as long as its longest sequence",
                  grouped(memory.micro_batches), memory.micro_batches == 1 ? "" : "es");
  if (memory.out_of_memory) return run + ": out of memory\n";
  return run + fmt::format(
                   ", at most {}: {} allocated, {} reserved (blocks of shorter ones are kept){}\n",
                   grouped(memory.longest), rounded_text(memory.peak_allocated),
                   rounded_text(memory.peak_reserved),
                   memory.fits ? "" : ", which leaves less than the margin");
}

Json run_memory_json(const planner::LengthsMemory& memory) {
  return {{"micro_batches", memory.micro_batches},
          {"longest_tokens", memory.longest},
          {"peak_allocated_bytes", memory.peak_allocated.count},
          {"peak_reserved_bytes", memory.peak_reserved.count},
          {"fits", memory.fits}};
}

}  // namespace

void declare_lengths_option(Command& command, std::optional<std::string>& lengths) {
  command.option(
      "--lengths", lengths,
      {"FILE|mean=M,max=X",
       "tokens of the data's sequences, one length a line or a JSON list: shows padding, "
       "packing and real tokens/s, and of PyTorch's runtimes the memory of a run whose "
       "micro-batches differ in length. --seq is the longest unless given"});
}

std::optional<SequenceLengths> take_lengths(const std::optional<std::string>& option,
                                            JobOptions& job) {
  if (!option) return std::nullopt;
  constexpr std::int64_t largest_file = 256 << 20;  // as of other JSON
  std::optional<SequenceLengths> lengths = lengths_in_words(*option);
  if (!lengths) lengths = planner::read_lengths(read_whole(*option, largest_file), *option);
  if (!job.seq) job.seq = lengths->longest();
  return lengths;
}

std::optional<planner::LengthsMemory> memory_or_note(
    const OutputOptions& output,
    const std::function<std::optional<planner::LengthsMemory>()>& told) {
  try {
    return told();
  } catch (const Error& error) {
    output.note(fmt::format("no memory of micro-batches that differ in length: {}", error.what()));
    return std::nullopt;
  }
}

std::string lengths_text(const LengthsReport& report) {
  const LengthFigures figures =
      planner::length_figures(report.lengths, report.length, report.batch);
  std::string text = fmt::format("lengths   {} sequence{}, mean {:.0f} tokens, longest {}\n",
                                 grouped(std::ssize(report.lengths.ascending)),
                                 report.lengths.ascending.size() == 1 ? "" : "s",
                                 report.lengths.mean(), grouped(report.lengths.longest()));
  if (figures.cut_share > 0)
    text += fmt::format("          {} of the tokens are beyond {} and cut\n",
                        percent(figures.cut_share), grouped(report.length));
  text += fmt::format(
      "          padded to {}: {} padding, {} real tokens/s\n"
      "          packed into rows of {}: {} padding, {} real tokens/s\n"
      "          padded to the longest of {} in a micro-batch ({:.0f} on average): {} padding\n"
      "          {} of the micro-batches have a sequence of {} tokens, the longest, and take "
      "the most memory\n",
      grouped(report.length), percent(figures.padding_to_length_share),
      grouped(real(report.tokens_per_s, figures.padding_to_length_share)), grouped(report.length),
      percent(figures.padding_when_packed_share),
      grouped(real(report.tokens_per_s, figures.padding_when_packed_share)), report.batch,
      figures.expected_longest, percent(figures.padding_to_batch_share),
      percent(figures.at_peak_share), grouped(std::min(report.length, report.lengths.longest())));
  if (report.memory) text += run_memory_text(*report.memory);
  return text;
}

std::string with_lengths(const std::string& json, const LengthsReport& report) {
  const LengthFigures figures =
      planner::length_figures(report.lengths, report.length, report.batch);
  Json root = Json::parse(json);
  root["lengths"] = {
      {"count", report.lengths.ascending.size()},
      {"mean_tokens", report.lengths.mean()},
      {"longest_tokens", report.lengths.longest()},
      {"cut_share", figures.cut_share},
      {"padding_to_seq_share", figures.padding_to_length_share},
      {"padding_to_micro_batch_share", figures.padding_to_batch_share},
      {"padding_when_packed_share", figures.padding_when_packed_share},
      {"longest_of_micro_batch_tokens", figures.expected_longest},
      {"at_peak_share", figures.at_peak_share},
      {"real_tokens_per_s_padded_to_seq",
       report.tokens_per_s * (1 - figures.padding_to_length_share)},
      {"real_tokens_per_s_packed", report.tokens_per_s * (1 - figures.padding_when_packed_share)}};
  root["lengths"]["memory"] = report.memory ? run_memory_json(*report.memory) : Json();
  constexpr int indent = 2;
  return root.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardscope
