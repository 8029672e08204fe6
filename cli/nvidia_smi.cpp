#include "cli/nvidia_smi.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace shardscope {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// nvidia-smi's MiB.
std::optional<Bytes> mebibytes(const std::string& text) {
  constexpr double most = 1e9;
  const auto value = number_of(text);
  if (!value || !(*value >= 0 && *value < most)) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*value)} * (std::int64_t{1} << 20);
}

/// "GPU3" or "NIC0".
bool is_device(std::string_view word) {
  if (!word.starts_with("GPU") && !word.starts_with("NIC")) return false;
  return word.size() > 3 && word.find_first_not_of("0123456789", 3) == word.npos;
}

std::vector<std::string> lines_of(std::string_view text) { return split(text, '\n'); }

}  // namespace

std::vector<InstalledGpu> read_installed_gpus(std::string_view text) {
  constexpr std::size_t fields = 9;
  std::vector<InstalledGpu> gpus;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> row = split(line, ',');
    if (row.size() != fields) continue;
    const auto index = number_of(row[0]);
    const auto memory = mebibytes(row[2]);
    if (!index || !memory) continue;
    gpus.push_back({.index = static_cast<int>(*index),
                    .name = row[1],
                    .memory = *memory,
                    .used = mebibytes(row[3]).value_or(Bytes{}),
                    .driver = row[4],
                    .compute_capability = row[5],
                    .power_limit_w = number_of(row[6]),
                    .default_power_limit_w = number_of(row[7]),
                    .is_divided = row[8] == "Enabled"});
  }
  return gpus;
}

std::vector<std::size_t> LinkTable::gpus() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].starts_with("GPU")) places.push_back(i);
  return places;
}

LinkTable read_link_table(std::string_view text) {
  LinkTable table;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> words = words_of(line);
    if (table.devices.empty()) {  // the headline: names of devices, then headings of two words
      for (const std::string& word : words)
        if (is_device(word)) table.devices.push_back(word);
      continue;
    }
    const std::size_t row = table.links.size();
    const bool is_row = row < table.devices.size() && words.size() > table.devices.size() &&
                        words.front() == table.devices[row];
    if (!is_row) continue;
    table.links.emplace_back(words.begin() + 1,
                             words.begin() + 1 + static_cast<std::ptrdiff_t>(table.devices.size()));
  }
  if (table.links.size() != table.devices.size()) return {};
  return table;
}

std::string driver_cuda_version(std::string_view text) {
  constexpr std::string_view mark = "CUDA Version: ";
  const std::size_t at = text.find(mark);
  if (at == text.npos) return {};
  const std::string_view rest = text.substr(at + mark.size());
  return std::string(rest.substr(0, std::min(rest.find_first_not_of("0123456789."), rest.size())));
}

}  // namespace shardscope
