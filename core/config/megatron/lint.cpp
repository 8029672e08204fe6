#include "core/config/megatron/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/config/megatron/arguments.h"

namespace shardscope::megatron {
namespace {

class Linter {
 public:
  Linter(std::string_view text, const std::string& file, std::optional<std::int64_t> world)
      : file_(file), arguments_(inspect_arguments(text, file)), world_(world) {}

  std::vector<Finding> findings() {
    for (const Problem& problem : arguments_.problems)
      add(problem.is_refused ? "refused" : "not-modelled",
          problem.is_refused ? Severity::error : Severity::note, problem.flag, problem.line,
          problem.what, problem.way_out);
    for (const Remark& remark : arguments_.remarks) add(remark);
    add_missing();
    const bool is_read = std::ranges::all_of(arguments_.problems, &Problem::is_read);
    if (is_read && arguments_.has_model && arguments_.has_length) add_contradictions();
    add_connections();
    return std::move(findings_);
  }

 private:
  void add(std::string_view rule, Severity severity, std::string_view flag, int line,
           std::string message, std::string mend) {
    findings_.push_back({.rule = std::string(rule),
                         .severity = severity,
                         .file = file_,
                         .line = line,
                         .key = flag.empty() ? std::string() : fmt::format("--{}", shown(flag)),
                         .message = std::move(message),
                         .mend = std::move(mend)});
  }

  void add(const Remark& remark) {
    switch (remark.kind) {
      case Remark::Kind::ignored:
        return add("ignored-key", Severity::warning, remark.flag, remark.line, remark.what,
                   "leave it out");
      case Remark::Kind::deprecated:
        return add("deprecated-key", Severity::warning, remark.flag, remark.line, "is deprecated",
                   remark.what);
      case Remark::Kind::ambiguous:
        return add("several-values", Severity::warning, remark.flag, remark.line, remark.what,
                   "give one value");
      case Remark::Kind::unknown:
        return add("unknown-key", Severity::note, remark.flag, remark.line,
                   "is no argument that is known here", "");
    }
  }

  void add_missing() {
    if (arguments_.passes_arguments) return;
    for (const std::string& flag : arguments_.missing)
      add("missing-key", Severity::error, flag, 0, "Megatron-LM asks for it",
          fmt::format("give --{}", flag));
  }

  /// Without the number of ranks those that the other sizes ask for are taken.
  void add_contradictions() {
    Settings settings = arguments_.settings;
    constexpr std::int64_t most = 1 << 20;
    if (world_) settings.world = static_cast<int>(std::clamp<std::int64_t>(*world_, 0, most + 1));
    const bool has_world = world_ || arguments_.has_world;
    if (!has_world) take_smallest_world(settings);
    for (const Contradiction& one : contradictions(settings)) {
      const bool turned_off = one.flag == "sequence-parallel" && settings.tensor == 1;
      const bool counts_ranks = one.flag == "nproc-per-node" || one.flag == "global-batch-size";
      if (counts_ranks && !has_world) continue;
      const Severity severity = !one.is_refused ? Severity::note
                                : turned_off    ? Severity::warning
                                                : Severity::error;
      add(!one.is_refused ? "not-modelled"
          : turned_off    ? "ignored-key"
                          : "refused",
          severity, one.flag == "nproc-per-node" && world_ ? "world" : one.flag, line_of(one.flag),
          one.what, one.way_out);
    }
  }

  static void take_smallest_world(Settings& settings) {
    constexpr std::int64_t most = 1 << 20;
    const std::int64_t parts = std::int64_t{settings.tensor} * settings.pipeline;
    if (parts > most || parts * settings.context > most ||
        parts * settings.context * settings.expert > most)
      return;
    settings.world = static_cast<int>(parts * settings.context * settings.expert);
  }

  /// The line in "run.sh:12: --num-experts".
  int line_of(std::string_view flag) const {
    const std::string place = arguments_.origin.place_of(flag);
    const std::string_view behind =
        std::string_view(place).substr(std::min(place.size(), file_.size()));
    int line = 0;
    if (!behind.starts_with(":")) return 0;
    for (const char c : behind.substr(1)) {
      if (c < '0' || c > '9') break;
      line = line * 10 + (c - '0');
    }
    return line;
  }

  /// Source: arguments.py, validate_args: asserted before Blackwell.
  void add_connections() {
    const Settings& s = arguments_.settings;
    if ((s.tensor == 1 && s.context == 1) || arguments_.max_connections == "1") return;
    const bool is_set = !arguments_.max_connections.empty();
    add("max-connections", Severity::warning, "", 0,
        is_set ? fmt::format("CUDA_DEVICE_MAX_CONNECTIONS is {}, and Megatron-LM refuses tensor "
                             "and context parallelism without 1 before Blackwell",
                             shown(arguments_.max_connections))
               : std::string("the script does not set CUDA_DEVICE_MAX_CONNECTIONS, and Megatron-LM "
                             "refuses tensor and context parallelism without 1 before Blackwell"),
        "write export CUDA_DEVICE_MAX_CONNECTIONS=1");
  }

  const std::string& file_;
  Arguments arguments_;
  std::optional<std::int64_t> world_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> lint_command_line(std::string_view text, const std::string& file,
                                       std::optional<std::int64_t> world) {
  return Linter(text, file, world).findings();
}

}  // namespace shardscope::megatron
