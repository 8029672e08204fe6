#include "core/config/yaml/yaml_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/base/refusal.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

/// repr() of what is read; "!" and the class of the exception where it is refused.
std::string read(std::string_view text) {
  try {
    return read_yaml(text, "x.yaml").repr();
  } catch (const Refusal& refusal) {
    return "!" + refusal.exception();
  }
}

struct Scalar {
  const char* text;
  const char* python;  ///< repr(yaml.safe_load(text)) of PyYAML 6.0.3
};
std::ostream& operator<<(std::ostream& out, const Scalar& scalar) { return out << scalar.text; }

class YamlScalar : public testing::TestWithParam<Scalar> {};

TEST_P(YamlScalar, IsWhatPyYamlMakesOfIt) { EXPECT_EQ(read(GetParam().text), GetParam().python); }

INSTANTIATE_TEST_SUITE_P(
    OfVersion11, YamlScalar,
    testing::Values(
        Scalar{"no", "False"}, Scalar{"On", "True"}, Scalar{"nO", "'nO'"}, Scalar{"y", "'y'"},
        Scalar{"1e8", "'1e8'"}, Scalar{"1.0e+8", "100000000.0"}, Scalar{"1.0e8", "'1.0e8'"},
        Scalar{"010", "8"}, Scalar{"08", "'08'"}, Scalar{"0o7", "'0o7'"}, Scalar{"1_000", "1000"},
        Scalar{"0x1F", "31"}, Scalar{"0b11", "3"}, Scalar{"+12", "12"}, Scalar{"1:30", "90"},
        Scalar{"1:30.5", "90.5"}, Scalar{"-.5", "'-.5'"}, Scalar{".5", "0.5"}, Scalar{"1.", "1.0"},
        Scalar{"~", "None"}, Scalar{"", "None"}, Scalar{".inf", "inf"}, Scalar{"-.Inf", "-inf"},
        Scalar{"2024-01-02", "datetime.date(2024, 1, 2)"}, Scalar{"2024-1-2", "'2024-1-2'"},
        Scalar{"2024-13-02", "!ValueError"}, Scalar{"'no'", "'no'"}, Scalar{"!!str no", "'no'"},
        Scalar{"!!int '12'", "12"}, Scalar{"!!binary aGk=", "b'hi'"},
        Scalar{"=", "!ConstructorError"}, Scalar{"12345678901234567890", "12345678901234567890"},
        Scalar{"0xFFFFFFFFFFFFFFFFFF", "4722366482869645213695"}));

class YamlText : public testing::TestWithParam<Scalar> {};

TEST_P(YamlText, IsReadOrRefusedAsPyYamlDoes) {
  EXPECT_EQ(read(GetParam().text), GetParam().python);
}

INSTANTIATE_TEST_SUITE_P(
    OfManyForms, YamlText,
    testing::Values(
        Scalar{"a: 1\r\nb: x\r\n", "{'a': 1, 'b': 'x'}"},
        Scalar{"\xEF\xBB\xBF"
               "a: 1",
               "{'a': 1}"},
        Scalar{"---\na: 1\n...\n", "{'a': 1}"}, Scalar{"a: 1\n---\nb: 2", "!ComposerError"},
        Scalar{"a: 1\n...\nb: 2", "!ParserError"}, Scalar{"a: b: c", "!ScannerError"},
        Scalar{"a:\n\tb: 1", "!ScannerError"}, Scalar{"a: \"x", "!ScannerError"},
        Scalar{"a: 1\n  b: 2", "!ScannerError"}, Scalar{"a:1", "'a:1'"},
        Scalar{"a:1\nb: 2", "!ScannerError"}, Scalar{"a: [1, 2", "!ParserError"},
        Scalar{"a: !!python/object:os.system x", "!ConstructorError"},
        Scalar{"a: *x", "!ComposerError"},
        Scalar{"a: >\n  x\n  y\n\n  z\nb: |-\n  l\n", "{'a': 'x y\\nz\\n', 'b': 'l'}"},
        Scalar{"b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}",
               "{'b': {'x': 1, 'y': 2}, 'c': {'x': 1, 'y': 3}}"},
        Scalar{"c: {<<: [{x: 1}, {x: 2}]}", "{'c': {'x': 1}}"},
        Scalar{"<<: 1", "!ConstructorError"}, Scalar{"- a\n-  - b\n   - c", "['a', ['b', 'c']]"},
        Scalar{"a:\n- 1\n- 2", "{'a': [1, 2]}"},
        Scalar{"{a: 1, b, c: [x: y]}", "{'a': 1, 'b': None, 'c': [{'x': 'y'}]}"},
        Scalar{"? a\n: b", "{'a': 'b'}"}, Scalar{"[a]: 1", "!ConstructorError"},
        Scalar{"1: a\ntrue: b", "{1: 'b'}"}, Scalar{"yes: a", "{True: 'a'}"},
        Scalar{"a: 'it''s'\nb: \"\\x41\\n\"", "{'a': \"it's\", 'b': 'A\\n'}"},
        Scalar{"a: x # c\nb: x#c", "{'a': 'x', 'b': 'x#c'}"}, Scalar{"@a", "!ScannerError"},
        Scalar{"%YAML 2.0\n---\na", "!ParserError"}, Scalar{"\x01", "!ReaderError"},
        Scalar{"\xFF", "!UnicodeDecodeError"}, Scalar{"# only\n", "None"}));

TEST(ReadYaml, NotesBothLinesOfAKeyThatStandsTwice) {
  const ConfigValue value = read_yaml("a: 1\nb: 2\na: 3\n", "x.yaml");
  EXPECT_EQ(value.repr(), "{'a': 3, 'b': 2}");
  ASSERT_EQ(value.duplicates().size(), 1u);
  EXPECT_EQ(value.duplicates()[0].first_line, 1);
  EXPECT_EQ(value.duplicates()[0].line, 3);
}

TEST(ReadYaml, CallsAnOverriddenMergeNoDuplicate) {
  const ConfigValue value = read_yaml("b: &b {x: 1}\nc: {<<: *b, x: 2}", "x.yaml");
  EXPECT_TRUE(value.at("c").duplicates().empty());
}

TEST(ReadYaml, KeepsTheLineOfEveryValue) {
  const ConfigValue value = read_yaml("a:\n  b:\n    - 1\n    - 2\n", "x.yaml");
  EXPECT_EQ(value.at("a").at("b").elements()[1].line(), 4);
}

TEST(ReadYaml, NamesTheLineAndTheKeyPath) {
  EXPECT_EQ(complaint_of([] { read_yaml("a:\n  b: !!int x\n", "x.yaml"); }),
            "x.yaml:2: a.b: invalid literal for int() with base 10: 'x'");
}

TEST(ReadYaml, RefusesAliasesThatExplode) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) text += (k ? ", *a" : "*a") + std::to_string(i - 1);
    text += "]\n";
  }
  EXPECT_NE(complaint_of([&] { read_yaml(text, "x.yaml"); }).find("use fewer aliases"),
            std::string::npos);
}

TEST(ReadYaml, RefusesDeepNesting) {
  EXPECT_EQ(read(std::string(1000, '[')), "!RecursionError");
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_EQ(read(deep), "!RecursionError");
}

TEST(ReadYaml, RefusesAnAnchorThatHoldsItself) {
  EXPECT_THROW(read_yaml("&a [*a]", "x.yaml"), Error);
}

}  // namespace
}  // namespace shardscope
