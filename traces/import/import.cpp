#include "traces/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "traces/gzip.h"
#include "traces/import/memory_guard.h"
#include "traces/import/memory_snapshot_reader.h"
#include "traces/import/nsight_reader.h"
#include "traces/import/text_input.h"
#include "traces/import/text_store.h"

namespace shardscope {
namespace {

constexpr std::size_t sniffed_bytes = std::size_t{1} << 20;
constexpr std::int64_t event_bytes = 60;
constexpr std::int64_t event_text_bytes = 220;
constexpr std::int64_t trace_gzip_ratio = 18;
constexpr std::int64_t snapshot_ratio = 4;
constexpr std::int64_t snapshot_gzip_ratio = 12;
constexpr std::int64_t timeline_share = 2;  ///< 18 bytes of a row of 36 bytes of text
constexpr std::int64_t timeline_gzip_ratio = 10;
constexpr int max_files = 4096;  ///< of an archive or a folder

void check_memory(const std::string& where, Bytes file, FileFormat format, bool is_compressed) {
  const Bytes needed = foreseen_memory(file, format, is_compressed);
  const Bytes available = free_memory();
  if (needed <= available) return;
  throw Error(
      {.where = where,
       .what = fmt::format("{} of trace will take about {} of memory, and {} is free",
                           rounded_text(file), rounded_text(needed), rounded_text(available)),
       .way_out = "profile fewer steps, or open it on a machine with more",
       .code = ExitCode::outside});
}

constexpr std::string_view not_a_trace =
    "not a trace of PyTorch's profiler or another in the Chrome format, no memory snapshot or "
    "timeline, and no export of Nsight Systems";

Error nothing_found(const std::string& where, std::string_view what) {
  return Error({.where = where,
                .what = std::string(what),
                .way_out = "give a .json, .json.gz, .tar.gz, .pickle or .sqlite, or a folder of "
                           "them"});
}

constexpr std::array trace_suffixes{".json", ".gz", ".tar", ".tgz", ".pickle", ".pkl", ".sqlite"};
/// What a run folder holds beside its traces.
constexpr std::array run_files{"job.json",     "config.json",     "hardware.json", "settings.json",
                               "summary.json", "comparison.json", "report.json"};

/// Does a file that was not read look like one to read, by its name if not by its content?
bool is_missed(const std::filesystem::path& name, FileFormat format) {
  const auto is_among = [](const auto& list, const std::filesystem::path& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  if (format != FileFormat::unknown && format != FileFormat::empty) return true;
  return is_among(trace_suffixes, name.extension()) && !is_among(run_files, name.filename());
}

/// Bytes of which the first have told the format.
struct Opened {
  std::unique_ptr<PeekedInput> content;
  FileFormat format = FileFormat::unknown;
  std::string name;
  bool is_compressed = false;
};

Opened opened(std::unique_ptr<TextInput> raw, std::string name) {
  auto bytes = std::make_unique<PeekedInput>(std::move(raw));
  const bool is_compressed = is_gzip(bytes->peek(2));
  auto content = std::make_unique<PeekedInput>(decompressed(std::move(bytes)));
  const FileFormat format = file_format(content->peek(sniffed_bytes));
  return {.content = std::move(content),
          .format = format,
          .name = std::move(name),
          .is_compressed = is_compressed};
}

struct Unread {
  FileFormat format = FileFormat::unknown;
  std::string reason;
};

Unread unread(const Opened& file) {
  const auto reason = [&]() -> std::string {
    if (const std::string problem = file.content->problem(); !problem.empty()) return problem;
    switch (file.format) {
      case FileFormat::execution_trace:
        return "an execution trace, which says what ran and not when";
      case FileFormat::nsight:
        return "an export of Nsight Systems; unpack it first";
      case FileFormat::tar:
        return "an archive in an archive; unpack it first";
      case FileFormat::empty:
        return "empty";
      default:
        if (const auto encoding = wide_encoding(file.content->peek(4)); !encoding.empty())
          return fmt::format("the file is {}, and is read as UTF-8 alone", encoding);
        return std::string(not_a_trace);
    }
  };
  return {.format = file.format, .reason = reason()};
}

bool is_streamed(FileFormat format) {
  return format == FileFormat::chrome_trace || format == FileFormat::memory_snapshot ||
         format == FileFormat::memory_timeline;
}

/// What nothing else says the progress of: all but traces by themselves.
std::unique_ptr<WatchedInput> watched(std::unique_ptr<TextInput> input, const std::string& name,
                                      const ImportOptions& options) {
  const auto is_over = [&options](std::int64_t file_bytes) {
    return options.progress && options.progress(ImportedTrace{}, file_bytes);
  };
  return std::make_unique<WatchedInput>(
      std::move(input),
      Watch{.name = name, .max_bytes = options.max_text_bytes, .is_over = is_over});
}

/// Formats that are read from front to back; `store` is for a trace's text. False for others.
bool read_stream(Opened& file, const std::function<TextStore()>& store,
                 const ImportOptions& options, Imported& into) {
  switch (file.format) {
    case FileFormat::chrome_trace:
      into.traces.push_back(read_kineto(*file.content, store(), file.name, options));
      return true;
    case FileFormat::memory_snapshot:
      into.snapshots.push_back(
          read_memory_snapshot(*watched(std::move(file.content), file.name, options), file.name,
                               {.max_bytes = options.max_text_bytes}));
      return true;
    case FileFormat::memory_timeline:
      into.timelines.push_back(
          read_memory_timeline(*watched(std::move(file.content), file.name, options), file.name));
      return true;
    default:
      return false;
  }
}

/// What is wrong with one of many files costs that file; an interruption ends all.
template <class Read>
void read_one_of_many(const std::filesystem::path& path, const std::string& name, Imported& into,
                      const Read& read) {
  try {
    const std::optional<Unread> unread = read();
    if (unread && is_missed(path, unread->format))
      into.left_out.push_back(name + ": " + unread->reason);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_input) throw;
    into.left_out.push_back(error.parts().where == name ? error.what()
                                                        : name + ": " + error.what());
  }
}

void read_archive(std::unique_ptr<TextInput> input, const std::string& name,
                  const ImportOptions& options, Imported& into) {
  TarArchive archive(watched(std::move(input), name, options));
  int files = 0;
  while (const auto member = archive.next()) {
    if (++files > max_files) throw Error({.where = name, .what = "more than 4,096 files"});
    Opened file = opened(archive.content(), name + ":" + *member);
    read_one_of_many(*member, file.name, into, [&]() -> std::optional<Unread> {
      if (is_streamed(file.format))
        check_memory(file.name, archive.size(), file.format, file.is_compressed);
      if (read_stream(
              file, [] { return TextStore::temporary(); }, options, into))
        return std::nullopt;
      return unread(file);
    });
  }
}

/// `options` that also end the reading where it takes too much.
ImportOptions guarded(const ImportOptions& options, MemoryGuard& guard) {
  ImportOptions result = options;
  result.progress = [&options, &guard](const ImportedTrace& trace, std::int64_t file_bytes) {
    guard.check();
    return options.progress && options.progress(trace, file_bytes);
  };
  return result;
}

std::optional<Unread> read_within_memory(const std::filesystem::path& path,
                                         const ImportOptions& options, Imported& into) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  Opened file = opened(open_bytes(path), path.filename().string());
  if (file.format == FileFormat::unknown) return unread(file);
  if (!ignored)
    check_memory(path.string(), Bytes{static_cast<std::int64_t>(size)}, file.format,
                 file.is_compressed);
  if (file.format == FileFormat::tar) {
    read_archive(std::move(file.content), file.name, options, into);
    return std::nullopt;
  }
  if (file.format == FileFormat::nsight) {
    if (file.is_compressed)
      throw Error({.where = file.name,
                   .what = "an export of Nsight Systems in gzip",
                   .way_out = "unpack it first: gunzip " + file.name});
    into.traces.push_back(read_nsight(path, file.name, options));
    return std::nullopt;
  }
  const auto store = [&] {
    return file.is_compressed ? TextStore::temporary() : TextStore::of_file(path);
  };
  if (read_stream(file, store, options, into)) return std::nullopt;
  return unread(file);
}

/// Reads what one file holds, or says why not.
std::optional<Unread> read_file(const std::filesystem::path& path, const ImportOptions& options,
                                Imported& into) {
  MemoryGuard guard(path.string());
  try {
    return read_within_memory(path, guarded(options, guard), into);
  } catch (const std::bad_alloc&) {
    throw guard.out_of_memory();
  }
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
    if (files.size() > max_files)
      throw Error({.where = folder.string(), .what = "more than 4,096 files"});
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Bytes foreseen_memory(Bytes file, FileFormat format, bool is_gzip) {
  switch (format) {
    case FileFormat::memory_snapshot:
      return file * (is_gzip ? snapshot_gzip_ratio : 1) * snapshot_ratio;
    case FileFormat::memory_timeline:
      return file * (is_gzip ? timeline_gzip_ratio : 1) / timeline_share;
    case FileFormat::nsight:
      return file;
    default:
      return file * (is_gzip ? trace_gzip_ratio : 1) / event_text_bytes * event_bytes;
  }
}

Imported import_files(const std::filesystem::path& path, const ImportOptions& options) {
  Imported into;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const auto& file : files_of(path)) {
      read_one_of_many(file, file.filename().string(), into,
                       [&] { return read_file(file, options, into); });
    }
  } else if (const auto unread = read_file(path, options, into)) {
    throw nothing_found(path.string(), unread->reason);
  }
  if (into.traces.empty() && into.snapshots.empty() && into.timelines.empty())
    throw into.left_out.empty() ? nothing_found(path.string(), not_a_trace)
                                : Error({.where = {}, .what = into.left_out.front()});
  const auto place = [](const ImportedTrace& trace) {
    return std::tuple(trace.rank.value_or(std::numeric_limits<int>::max()), trace.file);
  };
  std::stable_sort(into.traces.begin(), into.traces.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return into;
}

std::vector<ImportedTrace> import_traces(const std::filesystem::path& path,
                                         const ImportOptions& options) {
  Imported all = import_files(path, options);
  if (!all.traces.empty()) return std::move(all.traces);
  throw Error({.where = path.string(),
               .what = "memory only, and no trace",
               .way_out = "give the profiler's trace, too"});
}

}  // namespace shardscope
