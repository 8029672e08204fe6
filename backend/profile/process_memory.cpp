#include "backend/profile/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>

namespace shardscope {
namespace {

constexpr std::string_view memory_file_prefix = "/memfd:shardscope ";

struct Rule {
  std::string_view owner;
  bool (*applies)(std::string_view name);
};

bool is_library(std::string_view name) {
  return name.ends_with(".so") || name.find(".so.") != std::string_view::npos;
}

/// The first that applies; of what is mapped outside of the own arena.
constexpr std::array<Rule, 7> rules{{
    {"arenas of peers, read in place",
     [](std::string_view name) { return name.starts_with("/memfd:shardscope arena"); }},
    {"communicator: control memory",
     [](std::string_view name) { return name.starts_with(memory_file_prefix); }},
    {"shared memory of libraries",
     [](std::string_view name) {
       return name.starts_with("/dev/shm/") || name.starts_with("/memfd:") ||
              name.starts_with("/SYSV");
     }},
    {"heap and stacks",
     [](std::string_view name) {
       return name.empty() || name.starts_with("[heap") || name.starts_with("[stack") ||
              name.starts_with("[anon");
     }},
    {"code and data of libraries", is_library},
    {"the kernel's own pages", [](std::string_view name) { return name.starts_with("["); }},
    {"program and other files", [](std::string_view) { return true; }},
}};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <class Number>
std::optional<Number> number_of(std::string_view word, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

/// "55c059658000-55c05965b000 r--p 00000000 fe:00 248030    /usr/bin/sed"
std::optional<MappedRange> head_of(std::string_view line) {
  const std::string_view addresses = next_word(line);
  const std::size_t dash = addresses.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto begin = number_of<std::uint64_t>(addresses.substr(0, dash), 16);
  const auto end = number_of<std::uint64_t>(addresses.substr(dash + 1), 16);
  if (!begin || !end) return std::nullopt;
  for (int field = 0; field < 4; ++field) next_word(line);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return MappedRange{.begin = *begin, .end = *end, .name = std::string(line), .pss = {}};
}

bool overlaps(const MappedRange& mapping, std::span<const std::byte> arena) {
  const auto begin = reinterpret_cast<std::uint64_t>(arena.data());
  return mapping.begin < begin + arena.size() && begin < mapping.end;
}

std::string_view owner_of(const MappedRange& mapping, std::span<const std::byte> arena) {
  if (overlaps(mapping, arena)) return "arena";
  return std::ranges::find_if(rules, [&](const Rule& rule) { return rule.applies(mapping.name); })
      ->owner;
}

}  // namespace

std::vector<MappedRange> parse_mappings(std::string_view smaps) {
  std::vector<MappedRange> mappings;
  while (!smaps.empty()) {
    std::string_view line = next_line(smaps);
    if (std::optional<MappedRange> head = head_of(line)) {
      mappings.push_back(std::move(*head));
    } else if (!mappings.empty() && next_word(line) == "Pss:") {
      const auto kibibytes = number_of<std::int64_t>(next_word(line));
      if (kibibytes && *kibibytes >= 0 && *kibibytes < (std::int64_t{1} << 50))
        mappings.back().pss = 1_KiB * *kibibytes;
    }
  }
  return mappings;
}

std::vector<MappedRange> own_mappings() {
  std::ifstream file("/proc/self/smaps");
  return parse_mappings(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

std::vector<MemoryHolder> holders_of(const std::vector<MappedRange>& mappings,
                                     std::span<const std::byte> arena) {
  std::vector<MemoryHolder> holders;
  for (const MappedRange& mapping : mappings) {
    if (mapping.pss == Bytes{}) continue;
    const std::string_view owner = owner_of(mapping, arena);
    auto holder = std::ranges::find(holders, owner, &MemoryHolder::owner);
    if (holder == holders.end())
      holder = holders.insert(holders.end(), {.owner = std::string(owner), .held = Bytes{}});
    *holder->held += mapping.pss;
  }
  std::ranges::stable_sort(holders, std::greater<>(),
                           [](const MemoryHolder& holder) { return holder.held->count; });
  return holders;
}

std::optional<ResidentSize> parse_resident_size(std::string_view statm, Bytes page) {
  next_word(statm);
  const auto all = number_of<std::int64_t>(next_word(statm));
  const auto shared = number_of<std::int64_t>(next_word(statm));
  if (!all || !shared) return std::nullopt;
  return ResidentSize{.all = page * *all, .shared = page * *shared};
}

ResidentSizeReader::ResidentSizeReader()
    : file_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)), page_{::sysconf(_SC_PAGESIZE)} {}

std::optional<ResidentSize> ResidentSizeReader::read() const {
  std::array<char, 256> text{};
  const ssize_t length = ::pread(file_.get(), text.data(), text.size(), 0);
  if (length <= 0) return std::nullopt;
  return parse_resident_size({text.data(), static_cast<std::size_t>(length)}, page_);
}

}  // namespace shardscope
