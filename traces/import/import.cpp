#include "traces/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <system_error>
#include <tuple>

#include "core/error.h"
#include "traces/gzip.h"
#include "traces/import/file_format.h"
#include "traces/import/text_input.h"
#include "traces/import/text_store.h"

namespace shardscope {
namespace {

constexpr std::size_t sniffed_bytes = std::size_t{1} << 20;
constexpr std::int64_t event_bytes = 60;
constexpr std::int64_t event_text_bytes = 220;
constexpr std::int64_t gzip_ratio = 18;
constexpr int max_files = 4096;  ///< of an archive or a folder

/// Memory that can be had without swapping; a very large amount where the system does not say.
Bytes available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::int64_t value = 0;
  while (file >> key >> value) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return Bytes{value * 1024};
  }
  return Bytes{std::numeric_limits<std::int64_t>::max()};
}

void check_memory(const std::filesystem::path& path, Bytes file, bool is_compressed) {
  const Bytes needed = foreseen_memory(file, is_compressed);
  const Bytes available = available_memory();
  if (needed <= available) return;
  throw Error(
      {.where = path.string(),
       .what = fmt::format("{} of trace will take about {} of memory, and {} is free",
                           rounded_text(file), rounded_text(needed), rounded_text(available)),
       .way_out = "profile fewer steps, or open it on a machine with more",
       .code = ExitCode::outside});
}

Error not_a_trace(const std::string& where) {
  return Error({.where = where,
                .what = "not a trace of PyTorch's profiler or another in the Chrome format",
                .way_out = "give a .json, .json.gz or .tar.gz, or a folder of them"});
}

/// One file of an archive, whose bytes must be read before the next one's.
ImportedTrace read_member(std::unique_ptr<TextInput> content, const std::string& name,
                          const ImportOptions& options) {
  return read_kineto(*content, TextStore::temporary(), name, options);
}

void read_archive(std::unique_ptr<TextInput> input, const std::string& name,
                  const ImportOptions& options, std::vector<ImportedTrace>& traces) {
  TarArchive archive(std::move(input));
  int files = 0;
  while (const auto member = archive.next()) {
    if (++files > max_files) throw Error({.where = name, .what = "more than 4,096 files"});
    auto content = std::make_unique<PeekedInput>(decompressed(archive.content()));
    if (file_format(content->peek(sniffed_bytes)) == FileFormat::chrome_trace)
      traces.push_back(read_member(std::move(content), name + ":" + *member, options));
  }
}

/// Reads the traces of one file; false if it is none.
bool read_file(const std::filesystem::path& path, const ImportOptions& options,
               std::vector<ImportedTrace>& traces) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  auto opened = std::make_unique<PeekedInput>(open_bytes(path));
  const bool is_compressed = is_gzip(opened->peek(2));
  auto input = std::make_unique<PeekedInput>(decompressed(std::move(opened)));
  const FileFormat format = file_format(input->peek(sniffed_bytes));
  const std::string name = path.filename().string();
  if (format != FileFormat::tar && format != FileFormat::chrome_trace) return false;
  if (!ignored) check_memory(path, Bytes{static_cast<std::int64_t>(size)}, is_compressed);
  if (format == FileFormat::tar) {
    read_archive(std::move(input), name, options, traces);
  } else {
    TextStore store = is_compressed ? TextStore::temporary() : TextStore::of_file(path);
    traces.push_back(read_kineto(*input, std::move(store), name, options));
  }
  return true;
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

Bytes foreseen_memory(Bytes file, bool is_gzip) {
  const Bytes text = is_gzip ? file * gzip_ratio : file;
  return text / event_text_bytes * event_bytes;
}

std::vector<ImportedTrace> import_traces(const std::filesystem::path& path,
                                         const ImportOptions& options) {
  std::vector<ImportedTrace> traces;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const auto& file : files_of(path)) read_file(file, options, traces);
  } else if (!read_file(path, options, traces)) {
    throw not_a_trace(path.string());
  }
  if (traces.empty()) throw not_a_trace(path.string());
  const auto place = [](const ImportedTrace& trace) {
    return std::tuple(trace.rank.value_or(std::numeric_limits<int>::max()), trace.file);
  };
  std::stable_sort(traces.begin(), traces.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return traces;
}

}  // namespace shardscope
