// A value of a configuration file as Python sees it: what YAML and JSON readers make, what the real
// tools' rules change, and what writers write.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardscope {

/// An int beyond 64 bits, in decimal digits.
struct BigInteger {
  std::string digits;  ///< "-18446744073709551616"
  bool operator==(const BigInteger&) const = default;
};

/// Any other Python object that a reader can make: a date of YAML, a set, bytes.
struct PythonObject {
  std::string type;  ///< "date"
  std::string text;  ///< str() of it
  std::string repr;
  bool operator==(const PythonObject&) const = default;
};

/// A key that stands twice in one mapping.
struct DuplicateKey {
  std::string key;
  int first_line = 0;
  int line = 0;  ///< of the later one, which counts
};

class ConfigValue {
 public:
  struct Entry;
  using List = std::vector<ConfigValue>;

  // Implicit, so that values stand in lists and dicts as they do in Python. Defined where Entry is
  // complete: its variant's constructors need that.
  // NOLINTBEGIN(google-explicit-constructor)
  ConfigValue();  ///< None
  ConfigValue(bool value);
  ConfigValue(int value);
  ConfigValue(std::int64_t value);
  ConfigValue(double value);
  ConfigValue(BigInteger value);
  ConfigValue(PythonObject value);
  ConfigValue(std::string value);
  ConfigValue(std::string_view value);
  ConfigValue(const char* value);
  ConfigValue(List value);
  // NOLINTEND(google-explicit-constructor)
  static ConfigValue dict(std::initializer_list<std::pair<std::string, ConfigValue>> entries = {});
  static ConfigValue list(std::initializer_list<ConfigValue> elements = {});

  ConfigValue(const ConfigValue&);
  ConfigValue(ConfigValue&&) noexcept;
  ConfigValue& operator=(const ConfigValue&);
  ConfigValue& operator=(ConfigValue&&) noexcept;
  ~ConfigValue();

  int line() const { return line_; }  ///< 1-based; 0: not from a file
  void set_line(int line) { line_ = line; }

  /// Number of the YAML node that stands in several places, through an alias; 0: in one.
  std::uint32_t shared_node() const { return shared_node_; }
  void set_shared_node(std::uint32_t node) { shared_node_ = node; }

  bool is_null() const { return holds<std::monostate>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_integer() const { return holds<std::int64_t>(); }  ///< neither bool nor beyond 64 bits
  bool is_double() const { return holds<double>(); }
  /// An int of any size, a float or a bool: what Python's arithmetic takes.
  bool is_number() const;
  bool is_string() const { return holds<std::string>(); }
  bool is_list() const;
  bool is_dict() const;
  bool is(std::string_view text) const { return is_string() && string() == text; }

  // Each throws Error naming the line where another kind stands.
  bool boolean() const;
  std::int64_t integer() const;  ///< of an int or a bool
  double number() const;         ///< of whatever is_number
  const std::string& string() const;
  const List& elements() const;
  List& elements();
  const std::vector<Entry>& entries() const;  ///< of a dict, in insertion order
  std::vector<Entry>& entries();
  const std::vector<DuplicateKey>& duplicates() const;  ///< found while reading this dict
  void add_duplicate(DuplicateKey duplicate);

  /// The value of a key that is text; null where it is missing or this is no dict.
  const ConfigValue* find(std::string_view key) const;
  ConfigValue* find(std::string_view key);
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const ConfigValue& at(std::string_view key) const;  ///< missing: Error
  /// The value of the key, or None.
  ConfigValue get(std::string_view key) const;
  /// d[key] = value: in the old place where the key is there, else at the end. Makes None a dict.
  ConfigValue& set(std::string_view key, ConfigValue value);
  bool erase(std::string_view key);

  /// Length of a list or dict, characters of a string in bytes; 0 of the rest.
  std::size_t size() const;
  bool truthy() const;            ///< bool(value)
  std::string str() const;        ///< str(value): "True", "None", "1e-05", "['A', 'B']"
  std::string repr() const;       ///< repr(value)
  std::string type_name() const;  ///< "NoneType", "bool", "int", "float", "str", "list", "dict"...
  const PythonObject* object() const { return std::get_if<PythonObject>(&value_); }
  const BigInteger* big_integer() const { return std::get_if<BigInteger>(&value_); }

  /// Python's ==: 1 == 1.0 == True, the order of a dict's keys does not count; lines do not either.
  bool operator==(const ConfigValue& other) const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  std::string expected(std::string_view what) const;

  std::variant<std::monostate, bool, std::int64_t, BigInteger, double, std::string, PythonObject,
               List, std::vector<Entry>>
      value_;
  std::vector<DuplicateKey> duplicates_;
  int line_ = 0;
  std::uint32_t shared_node_ = 0;
};

/// A member of a dict. A key that is no text (a number, true, null in YAML) is kept as Python would
/// write it, with its type.
struct ConfigValue::Entry {
  std::string key;               ///< repr() of the key where it is no str
  std::string key_type = "str";  ///< Python's name: "int", "bool", "NoneType"...
  int line = 0;                  ///< of the key
  ConfigValue value;

  bool operator==(const Entry& other) const {
    return key == other.key && key_type == other.key_type && value == other.value;
  }
};

}  // namespace shardscope
