#include "traces/import/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "traces/import/pickle_opcodes.h"

namespace shardscope {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;
constexpr std::size_t max_text = std::size_t{64} << 20;

/// Bytes of an input, asked for in pieces of any length.
class ByteSource {
 public:
  explicit ByteSource(TextInput& input) : input_(input), block_(block_bytes, '\0') {}

  std::int64_t offset() const { return offset_; }

  /// The next `count` bytes; fewer where the input ends. Valid until the next call. What is asked
  /// for is only believed as it comes.
  std::string_view take(std::size_t count) {
    if (end_ - at_ < count && count <= block_.size()) refill();
    if (end_ - at_ >= count || count <= block_.size()) return taken(std::min(count, end_ - at_));
    long_.assign(taken(end_ - at_));
    while (long_.size() < count) {
      refill();
      if (at_ == end_) break;
      long_ += taken(std::min(count - long_.size(), end_ - at_));
    }
    return long_;
  }

 private:
  std::string_view taken(std::size_t count) {
    const std::string_view bytes(block_.data() + at_, count);
    at_ += count;
    offset_ += static_cast<std::int64_t>(count);
    return bytes;
  }

  void refill() {
    std::memmove(block_.data(), block_.data() + at_, end_ - at_);
    end_ -= at_;
    at_ = 0;
    end_ += input_.read(std::span(block_).subspan(end_));
  }

  TextInput& input_;
  std::string block_, long_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t offset_ = 0;
};

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

}  // namespace

class PickleReader {
 public:
  PickleReader(TextInput& input, const std::string& name, const PickleBounds& bounds)
      : input_(input), source_(input), name_(name), bounds_(bounds) {}

  Pickle read() {
    while (!is_done_) step();
    close_containers();
    if (!stack_.empty()) pickle_.root_ = stack_.front();
    pickle_.texts_ = std::move(texts_).take();
    pickle_.bytes_ = source_.offset();
    return std::move(pickle_);
  }

 private:
  void step() {
    at_ = source_.offset();
    if (at_ >= bounds_.max_bytes)
      return stop(fmt::format("more than {} bytes: the rest is left out", bounds_.max_bytes));
    const std::string_view byte = source_.take(1);
    if (byte.empty()) return cut();
    const auto code = static_cast<unsigned char>(byte.front());
    const PickleOpcode& opcode = pickle_opcodes()[code];
    const std::string_view number = source_.take(opcode.width);
    if (number.size() < opcode.width) return cut();
    ++pickle_.opcodes_[code];
    if (!opcode.is_counted) return perform(opcode, number, {});
    const std::uint64_t length = little_endian(number);
    if (length > max_text) return stop("a text of more than 64 MiB: the rest is left out");
    const std::string_view content = source_.take(static_cast<std::size_t>(length));
    if (content.size() < length) return cut();
    perform(opcode, {}, content);
  }

  void perform(const PickleOpcode& opcode, std::string_view number, std::string_view content) {
    switch (opcode.step) {
      case PickleStep::unknown:
        return damaged("no opcode");
      case PickleStep::refused:
        refuse(opcode.name);
      case PickleStep::global:
      case PickleStep::stack_global:
      case PickleStep::call:
      case PickleStep::build:
      case PickleStep::persistent_id:
        if (!bounds_.keeps_objects) refuse(opcode.name);
        return note_object(opcode.step);
      case PickleStep::ignored:
        return;
      case PickleStep::protocol:
        pickle_.protocol_ = static_cast<int>(little_endian(number));
        return;
      case PickleStep::stop:
        is_done_ = true;
        if (stack_.size() != 1 || !marks_.empty()) damaged("a STOP before the end");
        return;
      case PickleStep::mark:
        if (marks_.size() >= bounds_.max_depth)
          return stop(fmt::format("nested deeper than {}", bounds_.max_depth));
        return marks_.push_back(stack_.size());
      case PickleStep::pop:
        return stack_.size() > base() ? stack_.pop_back() : damaged("a POP of nothing");
      case PickleStep::pop_mark:
        return since_mark([](std::span<const PickleValue>) {});
      default:
        return perform_value(opcode, number, content);
    }
  }

  void perform_value(const PickleOpcode& opcode, std::string_view number,
                     std::string_view content) {
    switch (opcode.step) {
      case PickleStep::none:
        return push({});
      case PickleStep::boolean:
        return push({.kind = PickleKind::boolean, .at = opcode.count});
      case PickleStep::integer:
        return push_integer(opcode.width == 4 ? static_cast<std::int32_t>(little_endian(number))
                                              : static_cast<std::int64_t>(little_endian(number)));
      case PickleStep::long_integer:
        return push_long(content);
      case PickleStep::real:
        return push_wide(PickleKind::real, static_cast<std::int64_t>(big_endian(number)));
      case PickleStep::text:
        return push({.kind = PickleKind::text, .at = intern(content)});
      case PickleStep::bytes:
        return push({.kind = PickleKind::bytes, .at = intern(content)});
      case PickleStep::get:
        return get(little_endian(number));
      case PickleStep::put:
        return put(little_endian(number));
      case PickleStep::memoize:
        return put(memo_.size());
      default:
        return perform_container(opcode);
    }
  }

  void perform_container(const PickleOpcode& opcode) {
    switch (opcode.step) {
      case PickleStep::new_list:
        return push_container(PickleKind::list, {});
      case PickleStep::new_tuple:
        return push_container(PickleKind::tuple, {});
      case PickleStep::new_dict:
        return push_container(PickleKind::dict, {});
      case PickleStep::last_tuple:
        return last_tuple(opcode.count);
      case PickleStep::marked_tuple:
        return marked(PickleKind::tuple);
      case PickleStep::marked_list:
        return marked(PickleKind::list);
      case PickleStep::marked_dict:
        return marked(PickleKind::dict);
      case PickleStep::append:
        return add_to(PickleKind::list, opcode.count);
      case PickleStep::set_item:
        return add_to(PickleKind::dict, opcode.count);
      default:
        return;
    }
  }

  // --- objects, as data ---

  void note_object(PickleStep step) {
    switch (step) {
      case PickleStep::global:
        return name_of_lines();
      case PickleStep::stack_global:
        return name_of_texts();
      case PickleStep::call:
        return called();
      case PickleStep::persistent_id:
        return named_by_id();
      default:
        return built();
    }
  }

  void push_name(std::string_view module, std::string_view name) {
    push({.kind = PickleKind::name, .at = intern(fmt::format("{}.{}", module, name))});
  }

  /// Up to the end of the line, which is left out; nothing where it does not come.
  std::optional<std::string> line() {
    constexpr std::size_t longest = 1000;
    std::string text;
    while (text.size() <= longest) {
      const std::string_view byte = source_.take(1);
      if (byte.empty()) return std::nullopt;
      if (byte.front() == '\n') return text;
      text += byte.front();
    }
    return std::nullopt;
  }

  void name_of_lines() {
    const auto module = line();
    const auto name = module ? line() : std::nullopt;
    name ? push_name(*module, *name) : damaged("a name without an end");
  }

  void name_of_texts() {
    if (stack_.size() < base() + 2) return damaged("a name of nothing");
    const PickleValue name = stack_.back(), module = stack_[stack_.size() - 2];
    if (name.kind != PickleKind::text || module.kind != PickleKind::text)
      return damaged("a name that is no text");
    stack_.resize(stack_.size() - 2);
    const std::string module_text(texts_.names()[module.at]), name_text(texts_.names()[name.at]);
    push_name(module_text, name_text);
  }

  /// Takes the last two values: what is called, and its arguments.
  void called() {
    if (stack_.size() < base() + 2) return damaged("a call of nothing");
    const std::array<PickleValue, 2> values{stack_[stack_.size() - 2], stack_.back()};
    stack_.resize(stack_.size() - 2);
    makes_dict(values) ? push_container(PickleKind::dict, {})
                       : push_container(PickleKind::object, values);
  }

  /// Whether a call gives a dict whose items are set afterwards.
  bool makes_dict(const std::array<PickleValue, 2>& call) const {
    if (call[0].kind != PickleKind::name || call[1].kind != PickleKind::tuple) return false;
    const std::string_view name = texts_.names()[call[0].at];
    return name == "collections.defaultdict" ||
           (name == "collections.OrderedDict" && pickle_.containers_[call[1].at].size == 0);
  }

  void named_by_id() {
    if (stack_.size() <= base()) return damaged("an id of nothing");
    const PickleValue id = stack_.back();
    stack_.pop_back();
    const std::array<PickleValue, 2> values{
        PickleValue{.kind = PickleKind::name, .at = intern(persistent_id_name)}, id};
    push_container(PickleKind::object, values);
  }

  void built() {
    if (stack_.size() < base() + 2) return damaged("a state of nothing");
    const PickleValue state = stack_.back();
    stack_.pop_back();
    if (stack_.back().kind == PickleKind::dict) return;  // attributes of an OrderedDict
    if (stack_.back().kind != PickleKind::object) return damaged("a state of what is no object");
    extend(stack_.back(), {&state, 1});
  }

  // --- what goes wrong ---

  [[noreturn]] void refuse(std::string_view opcode) const {
    throw Error({.where = name_,
                 .what = fmt::format("opcode {} at byte {} is more than plain data, and nothing of "
                                     "a file is ever executed",
                                     opcode, at_),
                 .way_out = bounds_.keeps_objects
                                ? "save it by torch.save, whose pickles have no such opcode"
                                : "a memory snapshot of PyTorch has plain data only"});
  }

  void stop(std::string problem) {
    is_done_ = true;
    if (pickle_.problem_.empty()) pickle_.problem_ = std::move(problem);
  }

  void cut() {
    const std::string problem = input_.problem();
    stop(problem.empty() ? fmt::format("cut off after {} bytes", source_.offset()) : problem);
  }

  void damaged(std::string_view what) {
    stop(fmt::format("{} at byte {}: the rest is lost", what, at_));
  }

  /// Counts what is kept, so that no file fills the memory.
  bool make_room(std::size_t cells) {
    used_ += cells;
    if (used_ <= bounds_.max_cells) return true;
    stop(fmt::format("more than {} values: the rest is left out", bounds_.max_cells));
    return false;
  }

  // --- values ---

  std::size_t base() const { return marks_.empty() ? 0 : marks_.back(); }

  void push(PickleValue value) {
    if (stack_.size() >= bounds_.max_cells)
      return stop(fmt::format("more than {} values: the rest is left out", bounds_.max_cells));
    stack_.push_back(value);
  }

  void push_integer(std::int64_t value) {
    if (value != static_cast<std::int32_t>(value)) return push_wide(PickleKind::integer, value);
    push({.kind = PickleKind::integer, .at = static_cast<std::uint32_t>(value)});
  }

  void push_wide(PickleKind kind, std::int64_t bits) {
    if (!make_room(1)) return;
    push({.kind = kind, .is_wide = true, .at = static_cast<std::uint32_t>(pickle_.wide_.size())});
    pickle_.wide_.push_back(bits);
  }

  /// Two's complement, the lowest byte first, of any length.
  void push_long(std::string_view bytes) {
    if (bytes.size() > sizeof(std::int64_t)) return push({.kind = PickleKind::huge_integer});
    std::uint64_t value = little_endian(bytes);
    const bool is_negative = !bytes.empty() && (bytes.back() & '\x80') != 0;
    if (is_negative && bytes.size() < sizeof value) value |= ~std::uint64_t{0} << 8 * bytes.size();
    push_integer(static_cast<std::int64_t>(value));
  }

  /// Texts cost what they take, by cells of 8 bytes, where they are new.
  std::uint32_t intern(std::string_view text) {
    const std::size_t before = texts_.names().size();
    const std::uint32_t number = texts_.intern(text);
    if (number == before) make_room(6 + text.size() / sizeof(PickleValue));
    return number;
  }

  // --- the memo ---

  void put(std::uint64_t index) {
    if (stack_.size() <= base()) return damaged("nothing to remember");
    // Every index takes two bytes of the file or more, or follows the one before.
    if (index > static_cast<std::uint64_t>(at_)) return damaged("a memo with holes");
    if (index >= memo_.size()) {
      if (!make_room(index + 1 - memo_.size())) return;
      memo_.resize(index + 1, unset);
    }
    memo_[index] = stack_.back();
  }

  void get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index] == unset) return damaged("a reference to nothing");
    pickle_.largest_memo_index_ =
        std::max(pickle_.largest_memo_index_, static_cast<std::int64_t>(index));
    push(memo_[index]);
  }

  // --- containers ---

  void push_container(PickleKind kind, std::span<const PickleValue> values) {
    if (!make_room(2 + values.size())) return;
    const auto size = static_cast<std::uint32_t>(values.size());
    const PickleValue made{.kind = kind,
                           .at = static_cast<std::uint32_t>(pickle_.containers_.size())};
    pickle_.containers_.push_back({.begin = static_cast<std::uint32_t>(pickle_.cells_.size()),
                                   .size = size,
                                   .capacity = size});
    pickle_.cells_.insert(pickle_.cells_.end(), values.begin(), values.end());
    push(made);
  }

  void last_tuple(std::size_t count) {
    if (stack_.size() < base() + count) return damaged("a tuple of nothing");
    const std::vector<PickleValue> values(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                          stack_.end());
    stack_.resize(stack_.size() - count);
    push_container(PickleKind::tuple, values);
  }

  /// Gives `use` what lies above the last mark, and takes both away.
  template <class Use>
  void since_mark(const Use& use) {
    if (marks_.empty()) return damaged("no mark");
    const std::vector<PickleValue> values(
        stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    use(values);
  }

  void marked(PickleKind kind) {
    since_mark([&](std::span<const PickleValue> values) {
      if (kind == PickleKind::dict) values = values.first(values.size() / 2 * 2);
      push_container(kind, values);
    });
  }

  /// Adds `count` values, or for 0 all since the mark, to the container below them.
  void add_to(PickleKind kind, std::size_t count) {
    if (count > 0) {
      if (stack_.size() < base() + count + 1) return damaged("nothing to add to");
      const std::vector<PickleValue> values(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                            stack_.end());
      stack_.resize(stack_.size() - count);
      return extend_top(kind, values);
    }
    since_mark([&](std::span<const PickleValue> values) { extend_top(kind, values); });
  }

  void extend_top(PickleKind kind, std::span<const PickleValue> values) {
    if (stack_.size() <= base()) return damaged("nothing to add to");
    if (stack_.back().kind == PickleKind::object) return;  // of a class's own kind of list or dict
    if (stack_.back().kind != kind) return damaged("nothing to add to");
    if (kind == PickleKind::dict && values.size() % 2 != 0) return damaged("a key without a value");
    extend(stack_.back(), values);
  }

  /// Appends to a container, which moves behind the others where it must grow, by doubling.
  void extend(PickleValue value, std::span<const PickleValue> values) {
    Pickle::Container& container = pickle_.containers_[value.at];
    std::vector<PickleValue>& cells = pickle_.cells_;
    const std::size_t needed = container.size + values.size();
    if (needed > container.capacity) {
      const std::size_t capacity =
          container.capacity == 0 ? needed : std::max(needed, std::size_t{container.capacity} * 2);
      if (!make_room(capacity)) return;
      const std::size_t begin = cells.size();
      cells.resize(begin + capacity);
      std::copy_n(cells.begin() + container.begin, container.size,
                  cells.begin() + static_cast<std::ptrdiff_t>(begin));
      container.begin = static_cast<std::uint32_t>(begin);
      container.capacity = static_cast<std::uint32_t>(capacity);
    }
    std::copy(values.begin(), values.end(), cells.begin() + container.begin + container.size);
    container.size = static_cast<std::uint32_t>(needed);
  }

  /// What is still open at the end becomes part of what lies below it.
  void close_containers() {
    while (stack_.size() > 1 || !marks_.empty()) {
      const std::size_t begin = std::max<std::size_t>(base(), 1);
      if (!marks_.empty()) marks_.pop_back();
      if (begin > stack_.size()) return;
      const std::vector<PickleValue> values(stack_.begin() + static_cast<std::ptrdiff_t>(begin),
                                            stack_.end());
      stack_.resize(begin);
      const PickleValue below = stack_.back();
      if (below.kind == PickleKind::list) extend(below, values);
      if (below.kind == PickleKind::dict) extend(below, closed_pairs(values));
    }
  }

  /// The keys and values of a dict that is not whole. Where a key should stand and none does, it is
  /// the one element of the list before it: those are added without a mark.
  std::vector<PickleValue> closed_pairs(const std::vector<PickleValue>& values) {
    std::vector<PickleValue> pairs;
    for (std::size_t i = 0; i + 1 < values.size();) {
      std::size_t end = i + 2;
      while (end < values.size() && values[end].kind != PickleKind::text) ++end;
      for (std::size_t inner = end - 1; inner > i + 1; --inner) {
        if (values[inner - 1].kind == PickleKind::list)
          extend(values[inner - 1], {&values[inner], 1});
      }
      pairs.push_back(values[i]);
      pairs.push_back(values[i + 1]);
      i = end;
    }
    return pairs;
  }

  static constexpr PickleValue unset{.at = std::numeric_limits<std::uint32_t>::max()};

  TextInput& input_;
  ByteSource source_;
  std::string name_;
  PickleBounds bounds_;
  Pickle pickle_;
  NameTable texts_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  ///< heights of the stack
  std::vector<PickleValue> memo_;
  std::size_t used_ = 0;  ///< cells
  std::int64_t at_ = 0;   ///< offset of the opcode at hand
  bool is_done_ = false;
};

std::string_view python_type_of(PickleKind kind) {
  constexpr std::array<std::string_view, 12> names{"NoneType", "bool", "int",   "int",
                                                   "float",    "str",  "bytes", "list",
                                                   "tuple",    "dict", "type",  "object"};
  return names[static_cast<std::size_t>(kind)];
}

std::optional<std::int64_t> Pickle::integer(PickleValue value) const {
  if (value.kind != PickleKind::integer) return std::nullopt;
  return value.is_wide ? wide_[value.at] : static_cast<std::int32_t>(value.at);
}

std::optional<bool> Pickle::boolean(PickleValue value) const {
  if (value.kind != PickleKind::boolean) return std::nullopt;
  return value.at != 0;
}

std::optional<double> Pickle::real(PickleValue value) const {
  if (value.kind != PickleKind::real) return std::nullopt;
  return std::bit_cast<double>(wide_[value.at]);
}

std::string_view Pickle::text(PickleValue value) const {
  const bool is_text = value.kind == PickleKind::text || value.kind == PickleKind::name;
  return is_text ? std::string_view(texts_[value.at]) : std::string_view{};
}

std::span<const PickleValue> Pickle::elements(PickleValue value) const {
  const bool is_container = value.kind == PickleKind::list || value.kind == PickleKind::tuple ||
                            value.kind == PickleKind::dict || value.kind == PickleKind::object;
  if (!is_container) return {};
  const Container& container = containers_[value.at];
  return std::span(cells_).subspan(container.begin, container.size);
}

std::optional<PickleValue> Pickle::find(PickleValue dict, std::string_view key) const {
  if (dict.kind != PickleKind::dict) return std::nullopt;
  const auto pairs = elements(dict);
  for (std::size_t i = pairs.size(); i >= 2; i -= 2) {
    if (text(pairs[i - 2]) == key && pairs[i - 2].kind == PickleKind::text) return pairs[i - 1];
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::int64_t>> Pickle::opcodes() const {
  std::vector<std::pair<std::string_view, std::int64_t>> counts;
  for (std::size_t code = 0; code < opcodes_.size(); ++code) {
    if (opcodes_[code] > 0) counts.emplace_back(pickle_opcodes()[code].name, opcodes_[code]);
  }
  std::sort(counts.begin(), counts.end());
  return counts;
}

std::size_t Pickle::allocated_bytes() const {
  std::size_t bytes =
      cells_.capacity() * sizeof(PickleValue) + containers_.capacity() * sizeof(Container) +
      wide_.capacity() * sizeof(std::int64_t) + texts_.capacity() * sizeof(std::string);
  for (const std::string& text : texts_) bytes += text.capacity();
  return bytes;
}

Pickle read_pickle(TextInput& input, const std::string& name, const PickleBounds& bounds) {
  return PickleReader(input, name, bounds).read();
}

}  // namespace shardscope
