// Python's pickles, read as plain data: nothing in them is executed, no class is ever looked up.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/name_table.h"
#include "traces/import/text_input.h"

namespace shardscope {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  huge_integer,  ///< more than 64 bits: only that it was there is known
  real,
  text,
  bytes,
  list,
  tuple,
  dict,
  name,    ///< of a class or function, "torch.float32": only where objects are kept
  object,  ///< what one was asked to make, and never made: its name, arguments, then state
};
/// As Python calls the type: "NoneType", "bool", "int", ...
std::string_view python_type_of(PickleKind kind);

/// One value, to be asked about through its Pickle.
struct PickleValue {
  PickleKind kind = PickleKind::none;
  bool is_wide = false;  ///< a number that `at` does not hold: `at` says where the Pickle does
  std::uint32_t at = 0;  ///< of texts and containers: their number, the same one where shared
  bool operator==(const PickleValue&) const = default;
};

/// How a pickle is read; more of anything is an Error or, of text, left out.
struct PickleBounds {
  std::int64_t max_bytes = std::int64_t{16} << 30;
  std::uint32_t max_cells = std::uint32_t{1} << 27;  ///< of all containers and of the memo together
  std::uint32_t max_depth = 1000;                    ///< of containers begun and not ended
  bool keeps_objects = false;  ///< classes, calls and persistent ids become names and objects
};

/// A pickle's values: 8 bytes each, texts once. Containers may be shared, and may hold themselves.
class Pickle {
 public:
  PickleValue root() const { return root_; }
  /// Booleans are no integers here.
  std::optional<std::int64_t> integer(PickleValue value) const;
  std::optional<bool> boolean(PickleValue value) const;
  std::optional<double> real(PickleValue value) const;
  /// Of a text or name; empty for others.
  std::string_view text(PickleValue value) const;
  /// Of a list, tuple or object; of a dict its keys and values in turn, a key that was set again
  /// twice. Empty for others.
  std::span<const PickleValue> elements(PickleValue value) const;
  /// The last value that a dict has under `key`.
  std::optional<PickleValue> find(PickleValue dict, std::string_view key) const;
  /// Texts by number: those of `PickleValue::at`.
  const std::vector<std::string>& texts() const { return texts_; }

  std::int64_t bytes() const { return bytes_; }
  int protocol() const { return protocol_; }
  /// Opcodes by name, those that occurred, in the order of their names.
  std::vector<std::pair<std::string_view, std::int64_t>> opcodes() const;
  std::int64_t largest_memo_index_read() const { return largest_memo_index_; }
  /// What was wrong with the end, in words; empty: nothing was. All that stood before is here.
  const std::string& problem() const { return problem_; }
  std::size_t allocated_bytes() const;

 private:
  friend class PickleReader;
  struct Container {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;
  };

  PickleValue root_;
  std::vector<PickleValue> cells_;  ///< of all containers
  std::vector<Container> containers_;
  std::vector<std::int64_t> wide_;  ///< integers, and the bits of reals
  std::vector<std::string> texts_;
  std::array<std::int64_t, 256> opcodes_{};
  std::int64_t bytes_ = 0;
  std::int64_t largest_memo_index_ = 0;
  int protocol_ = 0;
  std::string problem_;
};

/// The name of an object that stands for a persistent id; its one argument is the id.
inline constexpr std::string_view persistent_id_name = "persistent id";

/// Reads a pickle of protocol 2 to 5 that holds dicts, lists, tuples, numbers, texts and bytes. An
/// opcode that would look up, build or call anything is refused: Error with its name and offset.
/// Where objects are kept, those of classes, calls, states and persistent ids are noted as data
/// (`PickleKind::object`); nothing is looked up or called then either. An OrderedDict or
/// defaultdict is a dict, without its attributes. Items that are added to an object of another
/// class are passed over. A pickle that is cut off or damaged gives what stood before, every open
/// container closed.
Pickle read_pickle(TextInput& input, const std::string& name, const PickleBounds& bounds = {});

}  // namespace shardscope
