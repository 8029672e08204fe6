#include "tests/structure/include_rules.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace shardscope::structure {
namespace {

using Names = std::vector<std::string_view>;

/// A room, or a folder of one with a rule of its own, and what its files may include: folders with
/// all that is inside them.
struct RoomRule {
  std::string_view room;
  Names may_include;
};

/// A file keeps the rule with the longest name that its path begins with.
const std::vector<RoomRule>& room_rules() {
  static const std::vector<RoomRule> rules{
      {"core/base", {"core/base"}},
      {"core/format", {"core/format", "core/base"}},
      {"core/model", {"core/model", "core/format", "core/base"}},
      {"core/pipeline", {"core/pipeline", "core/base"}},
      {"core/schedule", {"core/schedule", "core/model", "core/format", "core/base"}},
      {"core/native",
       {"core/native", "core/pipeline", "core/schedule", "core/model", "core/format", "core/base"}},
      {"core/pytorch/engine",
       {"core/pytorch/engine", "core/schedule", "core/model", "core/format", "core/base"}},
      {"core/pytorch/plans",
       {"core/pytorch/plans", "core/schedule", "core/model", "core/format", "core/base"}},
      {"core/pytorch/runtimes",
       {"core/pytorch", "core/schedule", "core/model", "core/format", "core/base"}},
      {"core/pytorch/parallel",
       {"core/pytorch", "core/pipeline", "core/schedule", "core/model", "core/format",
        "core/base"}},
      {"core/recording",
       {"core/recording", "core/pytorch", "core/schedule", "core/model", "core/format",
        "core/base"}},
      {"core/config", {"core"}},
      {"traces", {"traces", "core/schedule", "core/model", "core/format", "core/base"}},
      {"sim",
       {"sim", "traces", "core/pipeline", "core/schedule", "core/model", "core/format",
        "core/base"}},
      {"sim/megatron", {"sim", "traces", "core"}},
      {"sim/planner", {"sim", "traces", "core"}},
      {"sim/validate", {"sim", "traces", "core"}},
      {"backend",
       {"backend", "traces", "core/native", "core/schedule", "core/model", "core/format",
        "core/base"}},
      {"gui", {"gui", "core", "traces", "sim", "cli/run_training"}},
      {"cli", {"cli", "core", "traces", "sim", "backend"}},
      {"tests", {"tests", "core", "traces", "sim", "backend", "gui", "cli"}},
  };
  return rules;
}

/// "core/base" holds "core/base/error.h", and not "core/base_of/error.h".
bool holds(std::string_view folder, std::string_view path) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

const RoomRule* rule_of(const SourceFile& file) {
  const RoomRule* longest = nullptr;
  for (const RoomRule& rule : room_rules())
    if (holds(rule.room, file.path) &&
        (longest == nullptr || rule.room.size() > longest->room.size()))
      longest = &rule;
  return longest;
}

/// A library, by how its headers' names begin, and the folders that may include it.
struct LibraryRule {
  std::string_view name;
  Names prefixes;
  Names folders;
  bool in_headers = false;  ///< of those folders; tests may always
};

const std::vector<LibraryRule>& library_rules() {
  static const std::vector<LibraryRule> rules{
      {"fmt", {"fmt/"}, {"core/", "traces/", "sim/", "backend/", "gui/", "cli/", "tests/"}, true},
      {"nlohmann/json", {"nlohmann/"}, {"core/", "traces/", "sim/", "backend/", "cli/", "tests/"}},
      {"toml++", {"toml++/"}, {"core/config/toml/"}},
      {"CLI11", {"CLI/"}, {"cli/"}, true},
      {"zlib", {"zlib.h"}, {"traces/", "backend/checkpoint/", "tests/traces/"}},
      {"SQLite", {"sqlite3.h"}, {"traces/import/", "traces/query/", "tests/traces/"}},
      {"MPI", {"mpi.h"}, {"backend/comm/", "tests/backend/"}, true},
      {"CUDA",
       {"cuda", "cublas", "cudnn", "nvml"},
       {"backend/cuda/", "backend/comm/", "backend/profile/", "backend/recorder/observer/",
        "tests/backend/", "tests/gpu/"},
       true},
      {"PyTorch", {"ATen/", "c10/", "torch/"}, {"backend/recorder/observer/"}},
      {"NCCL",
       {"nccl"},
       {"backend/cuda/", "backend/comm/", "tests/backend/comm/", "tests/gpu/"},
       true},
      {"NVTX", {"nvtx3/"}, {"backend/profile/", "tests/backend/profile/", "tests/gpu/"}, true},
      {"CUPTI", {"cupti"}, {"backend/profile/", "tests/backend/profile/", "tests/gpu/"}, true},
      {"oneDNN", {"oneapi/", "dnnl"}, {"backend/cpu/", "tests/backend/", "tests/bench/"}, true},
      {"OpenMP", {"omp.h"}, {"backend/", "tests/backend/"}},
      {"intrinsics",
       {"immintrin.h", "arm_neon.h"},
       {"backend/cpu/", "backend/checkpoint/crc32_"},
       true},
      {"Qt", {"Qt"}, {"gui/", "tests/gui/", "tests/bench/gui_"}, true},
      {"Google Test", {"gtest/", "gmock/"}, {"tests/"}, true},
      {"Google Benchmark", {"benchmark/"}, {"tests/"}, true},
      {"the system",
       {"sys/", "netinet/", "arpa/", "linux/"},
       {"core/", "traces/", "sim/", "backend/", "gui/", "cli/", "tests/"}},
  };
  return rules;
}

bool starts_with_any(std::string_view text, const Names& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

/// <QWidget>, <QtCore/QString>: Qt names its headers after its classes.
bool is_qt(std::string_view target) {
  return target.size() > 1 && target[0] == 'Q' &&
         ((target[1] >= 'A' && target[1] <= 'Z') || target[1] == 't');
}

const LibraryRule* library_of(std::string_view target) {
  for (const LibraryRule& rule : library_rules()) {
    if (starts_with_any(target, rule.prefixes) || (rule.name == "Qt" && is_qt(target)))
      return &rule;
  }
  return nullptr;
}

class Checker {
 public:
  explicit Checker(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) paths_.insert(file.path);
  }

  std::vector<std::string> breaches(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) check(file);
    return std::move(breaches_);
  }

 private:
  void check(const SourceFile& file) {
    for (const Include& include : file.includes) {
      include.quoted ? check_own(file, include) : check_library(file, include);
    }
    check_own_header_first(file);
    check_text(file);
  }

  void report(const SourceFile& file, int line, std::string_view what) {
    breaches_.push_back(file.path + ":" + std::to_string(line) + ": " + std::string(what));
  }

  void check_own(const SourceFile& file, const Include& include) {
    const std::string quoted = "\"" + include.target + "\"";
    if (!paths_.contains(include.target)) {
      report(file, include.line,
             quoted + " is no file of this project; include from its root, libraries in <>");
      return;
    }
    const RoomRule* rule = rule_of(file);
    if (rule == nullptr) {
      report(file, 1, "no rule of tests/structure covers this folder");
      return;
    }
    const bool allowed = std::ranges::any_of(
        rule->may_include, [&](std::string_view room) { return holds(room, include.target); });
    if (!allowed) report(file, include.line, std::string(rule->room) + " must not see " + quoted);
  }

  void check_library(const SourceFile& file, const Include& include) {
    const std::string bracketed = "<" + include.target + ">";
    const LibraryRule* rule = library_of(include.target);
    if (rule == nullptr) {
      if (include.target.find('/') != std::string::npos) {
        report(file, include.line, bracketed + " belongs to no library that the rules know");
      }
      return;
    }
    const std::string name(rule->name);
    if (!starts_with_any(file.path, rule->folders)) {
      report(file, include.line, name + " does not belong in this folder: " + bracketed);
    } else if (file.is_header() && !rule->in_headers && file.room() != "tests") {
      report(file, include.line, name + " belongs in a source file, not in a header: " + bracketed);
    }
  }

  void check_own_header_first(const SourceFile& file) {
    const std::string header = file.stem() + ".h";
    if (file.is_header() || !paths_.contains(header)) return;
    if (file.includes.empty() || file.includes.front().target != header) {
      report(file, file.includes.empty() ? 1 : file.includes.front().line,
             "the first include must be its own header, \"" + header + "\"");
    }
  }

  void check_text(const SourceFile& file) {
    if (file.is_header() && file.text.find("#pragma once\n") == std::string::npos) {
      report(file, 1, "a header needs #pragma once");
    }
    const auto position = file.text.find("defined(SHARDSCOPE_HAS_") != std::string::npos
                              ? file.text.find("defined(SHARDSCOPE_HAS_")
                              : file.text.find("#ifdef SHARDSCOPE_HAS_");
    if (position != std::string::npos && file.room() != "tests") {
      const auto lines = std::count(
          file.text.begin(), file.text.begin() + static_cast<std::ptrdiff_t>(position), '\n');
      report(file, static_cast<int>(lines) + 1,
             "an absent dependency is a second source file, not an #if");
    }
  }

  std::set<std::string> paths_;
  std::vector<std::string> breaches_;
};

}  // namespace

std::vector<std::string> include_breaches(const std::vector<SourceFile>& files) {
  return Checker(files).breaches(files);
}

}  // namespace shardscope::structure
