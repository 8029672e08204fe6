#include "backend/comm/nccl/tuning_log.h"

#include <array>
#include <charconv>
#include <utility>

namespace shardscope {
namespace {

/// As ncclFuncToString names them.
constexpr std::array<std::pair<std::string_view, OperationKind>, 4> functions{{
    {"AllGather", OperationKind::all_gather},
    {"ReduceScatter", OperationKind::reduce_scatter},
    {"AllReduce", OperationKind::all_reduce},
    {"Broadcast", OperationKind::broadcast},
}};

/// Takes the parts of a line off its front.
class LineParts {
 public:
  explicit LineParts(std::string_view rest) : rest_(rest) {}

  bool skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool skip_past(std::string_view text) {
    const std::size_t at = rest_.find(text);
    if (at == rest_.npos) return false;
    rest_.remove_prefix(at + text.size());
    return true;
  }
  /// Up to `end`, which is skipped.
  std::optional<std::string_view> word(std::string_view end) {
    const std::size_t at = rest_.find(end);
    if (at == rest_.npos || at == 0) return std::nullopt;
    const std::string_view found = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return found;
  }
  std::optional<std::int64_t> number(std::string_view end) {
    const std::optional<std::string_view> digits = word(end);
    std::int64_t value = 0;
    if (!digits) return std::nullopt;
    const char* const last = digits->data() + digits->size();
    const auto [stopped, error] = std::from_chars(digits->data(), last, value);
    if (error != std::errc{} || stopped != last || value < 0) return std::nullopt;
    return value;
  }

 private:
  std::string_view rest_;
};

std::optional<OperationKind> kind_of(std::string_view function) {
  for (const auto& [name, kind] : functions)
    if (name == function) return kind;
  return std::nullopt;
}

/// Of one rank, as NCCL counts.
Bytes counted(OperationKind kind, int ranks, Bytes bytes) {
  const bool of_a_part = kind == OperationKind::all_gather || kind == OperationKind::reduce_scatter;
  return of_a_part ? bytes / ranks : bytes;
}

}  // namespace

Variables nccl_tuning_variables(const std::filesystem::path& file) {
  return {
      {"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "TUNING"}, {"NCCL_DEBUG_FILE", file.string()}};
}

std::optional<NcclTuningLine> parse_nccl_tuning(std::string_view line) {
  LineParts parts(line);
  if (!parts.skip_past("NCCL INFO ")) return std::nullopt;
  const auto function = parts.word(": ");
  const auto bytes = parts.number(" Bytes -> Algo ");
  const auto algorithm = parts.word(" proto ");
  const auto protocol = parts.word(" channel{Lo..Hi}={");
  const auto low = parts.number("..");
  const auto high = parts.number("}");
  if (!function || !bytes || !algorithm || !protocol || !low || !high) return std::nullopt;
  const std::optional<OperationKind> kind = kind_of(*function);
  constexpr std::int64_t most_channels = 1024;
  if (!kind || *high < *low || *high >= most_channels) return std::nullopt;
  return NcclTuningLine{.kind = *kind,
                        .bytes = {*bytes},
                        .choice = {.algorithm = std::string(*algorithm),
                                   .protocol = std::string(*protocol),
                                   .channels = static_cast<int>(*high - *low + 1)}};
}

CollectiveChoice NcclTuningLog::last_of(OperationKind kind, int ranks, Bytes bytes) {
  CollectiveChoice last;
  std::ifstream file(path_, std::ios::binary);
  file.seekg(read_);
  const Bytes wanted = counted(kind, ranks, bytes);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read_ += static_cast<std::streamoff>(line.size()) + 1;
    const std::optional<NcclTuningLine> choice = parse_nccl_tuning(line);
    if (choice && choice->kind == kind && choice->bytes == wanted) last = choice->choice;
  }
  return last;
}

}  // namespace shardscope
